"""What `walrelay find` says of rows in real tables, without a relay: each state, and why."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import yaml

from tests.acceptance.adopting import SYSTEMS
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from walrelay import compose
from walrelay.cli import main
from walrelay.config import load
from walrelay.errors import Fatal
from walrelay.operations.find import FoundRows, RowQuestion, TracedRow, look, read_back
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.connect import is_idle, set_statement_timeout
from walrelay.wiring import Wiring

MakeWiring = Callable[..., Wiring]


@pytest.fixture
def made(tmp_path: Path) -> MakeWiring:
    """`init` was run for these sections of the settings."""

    def make(database: Database, *init: str, **sections: Any) -> Wiring:
        config = tmp_path / "walrelay.yaml"
        source = {"dsn": database.dsn, "slot": database.name}
        config.write_text(yaml.safe_dump({"source": source, "sink": {"kind": "memory"}} | sections))
        main.main(["init", "--config", str(config), *init], standalone_mode=False)
        return compose.wiring(load(config))

    return make


def found(wiring: Wiring, question: RowQuestion) -> FoundRows:
    with Catalog(wiring.dsn) as catalog:
        answer = look(wiring, catalog, question, sleep)
        assert is_idle(catalog.connection)
        assert catalog.value("SHOW transaction_read_only") == "off"
        return answer


def one(wiring: Wiring, id_: str) -> TracedRow:
    (row,) = found(wiring, RowQuestion([id_])).rows
    return row


def emit(database: Database, id_: str = "a", payload: str = "{}") -> str:
    query = "SELECT walrelay.emit('order', %s, 'Placed', %s::jsonb)"
    return str(database.execute(query, [id_, payload])[0][0])


def advance(database: Database) -> None:
    """As if a relay had confirmed everything."""
    database.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())", [database.name])


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_a_row_waits_until_the_relay_has_confirmed_it(made: MakeWiring, database: Database, plugin: str) -> None:
    wiring = made(database, source={"dsn": database.dsn, "slot": database.name, "plugin": plugin})
    id_ = emit(database)
    row = one(wiring, id_)
    assert (row.id, row.aggregate_type, row.aggregate_id, row.type) == (id_, "order", "a", "Placed")
    assert (row.state, row.due, row.in_table) == ("waiting", ("outbox.event.order",), True)
    assert "no relay reads the slot" in row.why
    assert row.written_at is not None
    assert abs(row.written_at / 1e6 - datetime.now(UTC).timestamp()) < 60
    advance(database)
    assert one(wiring, id_).state == "published"


def test_a_row_is_published_when_each_of_its_sinks_has_it(made: MakeWiring, database: Database) -> None:
    wiring = made(
        database, sink=None, sinks={"eu": {"kind": "memory"}, "us": {"kind": "memory"}}, route={"sink": ["eu", "us"]}
    )
    id_ = emit(database)
    database.execute(
        "INSERT INTO walrelay.dead_letters (slot_name, commit_lsn, ordinal, number, record_id, sink, topic, status,"
        " error, reason, attempts)"
        " VALUES (%s, '0/10', 0, 1, %s, 'us', 'us:outbox.event.order', 'replayed', 'too_large', '', 1)",
        [database.name, id_],
    )
    assert one(wiring, id_).state == "waiting"
    assert [each.state for each in one(wiring, id_).destinations] == ["waiting", "published"]
    advance(database)
    assert one(wiring, id_).state == "published"


def test_what_is_not_known_is_called_unknown(made: MakeWiring, database: Database) -> None:
    database.execute((SYSTEMS / "event-log.sql").read_text())
    ((before,),) = database.execute(WRITTEN["event-log"])
    wiring = made(database, outbox={"preset": "event-log"})
    ((after,),) = database.execute(WRITTEN["event-log"])
    advance(database)
    assert (one(wiring, before).state, one(wiring, after).state) == ("unknown", "published")
    assert "from before the slot" in one(wiring, before).why
    database.execute("UPDATE outbox SET published = true WHERE id::text = %s", [before])  # as the other worker does
    advance(database)
    assert one(wiring, before).state == "unknown"
    database.execute("ALTER PUBLICATION walrelay SET (publish = 'insert, update')")
    altered = one(wiring, after)
    assert (altered.state, "was altered" in altered.why, "walrelay init" in altered.why) == ("unknown", True, True)
    nothing = one(wiring, "no such id")
    assert (nothing.state, nothing.in_table) == ("unknown", False)
    database.execute("SELECT pg_drop_replication_slot(%s)", [database.name])
    lost = one(wiring, after)
    assert (lost.state, "does not exist" in lost.why) == ("unknown", True)


def test_the_time_of_a_commit_tells_what_was_published(made: MakeWiring, private_postgres: PostgresMaker) -> None:
    database = private_postgres(track_commit_timestamp="on").create_database()
    wiring = made(database)
    first = emit(database)
    advance(database)
    with database.connect(autocommit=False) as writer:
        writer.execute("SELECT pg_current_xact_id()")  # open: what follows has a later number
        second = emit(database)
        row = one(wiring, second)
        assert (row.state, row.committed_at is not None) == ("waiting", True)
        assert one(wiring, first).state == "published"


def test_an_aggregate_comes_in_pages_the_latest_first(made: MakeWiring, database: Database) -> None:
    wiring = made(database)
    ids = [emit(database, "42") for _ in range(7)]
    emit(database, "43")
    seen, after = list[str](), ""
    for _ in range(3):
        page = found(wiring, RowQuestion(aggregate=("order", "42"), limit=3, after=after))
        seen += [each.id for each in page.rows]
        after = page.next or ""
    assert (seen, after) == (ids[::-1], "")
    assert len(found(wiring, RowQuestion(aggregate=("order", None))).rows) == 8
    with pytest.raises(Fatal, match="`after`"):
        found(wiring, RowQuestion(aggregate=("order", "42"), after="nonsense"))


def test_a_period_is_that_of_the_writing(made: MakeWiring, database: Database) -> None:
    wiring = made(database)
    id_ = emit(database)
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    assert [each.id for each in found(wiring, RowQuestion(since=now - hour, until=now + hour)).rows] == [id_]
    assert not found(wiring, RowQuestion(until=now - hour)).rows
    assert not found(wiring, RowQuestion(ids=[id_], since=now + hour)).rows[0].in_table


WRITTEN = {
    "ef-core": "INSERT INTO messaging.outbox_messages VALUES (gen_random_uuid(), 'Acme.Made, Acme', '{}', now())"
    " RETURNING id::text",
    "event-log": "INSERT INTO outbox (id, aggregate_id, event_type, event_data) VALUES (gen_random_uuid(), 'P-7',"
    " 'Made', '{}') RETURNING id::text",
    "multi-tenant": "INSERT INTO outbox (id, tenant_id, topic, occurred_at, payload) VALUES ('x-1', 't', 'things',"
    " now(), '{}') RETURNING id",
    "spring-cloud-stream": "INSERT INTO outbox (event_type, payload, created_at) VALUES ('made', '{}', now())"
    " RETURNING id::text",
    "event-store": "INSERT INTO events (type, tags, data) VALUES ('Made', '{a=1}', '{}') RETURNING position::text",
    "debezium": "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', '42', 'Made', '{}') RETURNING id::text",
}


@pytest.mark.parametrize("preset", WRITTEN)
def test_the_tables_of_other_workers(made: MakeWiring, database: Database, preset: str) -> None:
    database.execute((SYSTEMS / f"{preset}.sql").read_text())
    wiring = made(database, outbox={"preset": preset})
    ((id_,),) = database.execute(WRITTEN[preset])
    answer = found(wiring, RowQuestion([id_]))
    (row,) = answer.rows
    assert (row.id, row.in_table, bool(row.due), answer.notices) == (id_, True, True, [])
    advance(database)
    assert one(wiring, id_).state == "published"
    if wiring.outbox.columns.aggregate_type and row.aggregate_type:
        aggregate = row.aggregate_type, row.aggregate_id
        assert [each.id for each in found(wiring, RowQuestion(aggregate=aggregate)).rows] == [id_]


def test_a_partitioned_table(made: MakeWiring, database: Database) -> None:
    wiring = made(database, "--partitioned")
    ids = [emit(database) for _ in range(2)]
    advance(database)
    assert [(each.id, each.state) for each in found(wiring, RowQuestion(ids)).rows] == [
        (id_, "published") for id_ in reversed(ids)
    ]


def test_rows_of_an_inheriting_table_are_told(made: MakeWiring, database: Database) -> None:
    wiring = made(database)
    database.execute("CREATE TABLE child () INHERITS (outbox)")
    assert found(wiring, RowQuestion(["a"])).notices == []
    database.execute("INSERT INTO child (aggregate_type, aggregate_id, type) VALUES ('order', '1', 'Placed')")
    (notice,) = found(wiring, RowQuestion(["a"])).notices
    assert notice.startswith('public.child inherits from "public"."outbox", and has rows: they are no events')


def test_what_the_publication_leaves_out_is_dropped(made: MakeWiring, database: Database) -> None:
    noise = {"name": "noise", "when": {"type": "Placed"}, "drop": True}
    wiring = made(database, "--push-down", routes=[noise, {"name": "rest"}])
    id_ = emit(database)
    advance(database)
    assert (one(wiring, id_).state, one(wiring, id_).why) == ("dropped", "the rule 'noise' drops it")
    database.execute("ALTER PUBLICATION walrelay SET TABLE outbox WHERE (type <> 'Placed' AND aggregate_id <> 'a')")
    assert "row filter" in one(wiring, id_).why


def test_an_id_is_looked_up_and_a_search_without_an_index_is_told(made: MakeWiring, database: Database) -> None:
    wiring = made(database)
    database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload) SELECT 'order', n::text, 'Placed',"
        " jsonb_build_object('x', repeat('x', 1500)) FROM generate_series(1, 6000) n"
    )
    ((id_,),) = database.execute("SELECT id::text FROM outbox WHERE aggregate_id = '77'")
    assert found(wiring, RowQuestion([id_])).notices == []
    scanned = found(wiring, RowQuestion(aggregate=("order", "77")))
    assert [each.id for each in scanned.rows] == [id_]
    (notice,) = scanned.notices
    assert "no index answers" in notice
    database.execute(notice.partition("fast: ")[2])
    assert found(wiring, RowQuestion(aggregate=("order", "77"))).notices == []


def test_the_topics_of_a_row_that_is_gone_are_those_of_others(
    made: MakeWiring, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiring = made(database)
    emit(database)
    question = RowQuestion(["gone"], reads=True, topics=["named"])
    assert found(wiring, question).topics == ["named", "outbox.event.order"]
    assert found(wiring, question._replace(reads=False)).topics == ["named"]
    monkeypatch.setattr("walrelay.operations.find.rows._SAMPLE", 4096)
    assert ["by a sample" in each for each in found(wiring, question).notices] == [True]


def test_without_a_table_only_dead_letters_and_topics_are_left(made: MakeWiring, database: Database) -> None:
    wiring = made(database, route={"topic": "things"})
    database.execute("DROP TABLE outbox CASCADE")
    answer = found(wiring, RowQuestion(["a"], reads=True))
    assert (answer.rows[0].state, answer.rows[0].in_table, answer.topics) == ("unknown", False, ["things"])
    assert any("not searched: there is no such table" in each for each in answer.notices)


def test_a_search_that_takes_too_long_is_given_up(made: MakeWiring, database: Database) -> None:
    wiring = made(database)
    with database.connect(autocommit=False) as other, Catalog(wiring.dsn) as catalog:
        other.execute("LOCK TABLE outbox")
        set_statement_timeout(catalog.connection, 0.2)
        with pytest.raises(Fatal, match="given up") as raised:
            look(wiring, catalog, RowQuestion(["1"]), sleep)
        assert "index" in raised.value.hint
        assert is_idle(catalog.connection)


def test_a_sink_that_cannot_be_read_says_so(made: MakeWiring, database: Database) -> None:
    wiring = made(database)
    question = RowQuestion([emit(database)])
    (row,) = read_back(wiring, question, found(wiring, question), 5.0).rows
    assert row.read_back == "not possible: a sink of kind 'memory' cannot be read back"
    assert row.state == "waiting"
