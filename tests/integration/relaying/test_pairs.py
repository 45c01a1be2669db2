"""Pairs of features that no other test has together; tests/pairs.py says which."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.integration.relaying.broker import KIND, Broker, Killed, RecordingSettings
from tests.integration.relaying.cleaning import AT_ONCE, clean, left
from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox, without_sentinels
from tests.integration.relaying.test_changed_settings import replay
from tests.integration.relaying.test_recover import lose
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.model import Message
from walrelay.operations.cleanup.batches import Session
from walrelay.operations.cleanup.marking import mark
from walrelay.operations.recovery import RecoveryRequest, plan_recovery
from walrelay.operations.replay import ReplayPlan, ReplayRequest, plan_replay, run_replay
from walrelay.wiring import Marks

BLOCKING: dict[str, Any] = {"refusals": {"policy": "dead_letter", "block_key": True}}
SCHEMA = {"type": "object", "title": "Order", "properties": {"n": {"type": "integer"}}}
TIMED = {"mode": "structured", "attributes": {"time": "{created_at}"}}
FORMS: dict[str, dict[str, Any]] = {
    "cloudevents": {"route": {"topic": "a", "envelope": {"kind": "cloudevents", "source": "/x", **TIMED}}},
    "masstransit": {
        "route": {"topic": "a", "envelope": {"kind": "masstransit", "message_types": ["Shop.{type}, Shop"]}}
    },
    "spring": {"route": {"topic": "a", "envelope": {"kind": "spring"}}},
    "json schema": {"route": {"topic": "a", "schema": {"format": "json-schema", "auto_register": True}}},
    "debezium": {"debezium": {"table.field.event.key": "aggregateid", "route.topic.replacement": "a"}},
    "tenants": {"route": {"topic": "of-{tenant_id}", "headers": {"tenant": "{tenant_id}"}}},
}
TABLES = {
    "debezium": "CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb,"
    " created_at timestamptz DEFAULT now())",
}
ROW = {
    "": "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload, tenant_id)"
    " VALUES ('00000000-0000-4000-8000-0000000000ff', 'order', 'o-1', 'Placed', '{\"n\": 1}', 'acme')",
    "debezium": "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)"
    " VALUES ('00000000-0000-4000-8000-0000000000ff', 'order', 'o-1', 'Placed', '{\"n\": 1}')",
}


@pytest.fixture
def way() -> str:
    """How the slot is read decides nothing here."""
    return "text"


def content(message: Message) -> tuple[object, ...]:
    """All that a consumer reads but the position, what says that it is a repetition, and the time of the commit, which
    the table does not have.
    """
    said = [each for each in message.headers if each[0] not in ("position", "replayed")]
    return message.topic, message.key, re.sub(rb'"sentTime":"[^"]+"', b"", message.value or b""), said


def confirmed(outbox: Outbox) -> None:
    with outbox.relay() as relay:
        relay.confirms(outbox.end_of_wal())


def replay_rows(outbox: Outbox, **request: Any) -> None:
    """`walrelay replay`, once the slot has confirmed all rows."""

    def settled() -> ReplayPlan | None:
        plan = plan_replay(outbox.wiring, ReplayRequest(**request), Event().wait)
        return None if plan.unconfirmed else plan

    with outbox.under(**AT_ONCE).relay():
        plan = wait_until(settled, 30, "all rows to be confirmed")
        assert plan is not None
        assert run_replay(Event(), outbox.wiring, plan, None, outbox.watcher)


def recover(outbox: Outbox) -> None:
    """A message that the topic has is known by whatever tells its id, and one that it lacks comes."""
    lose(outbox)
    assert plan_recovery(outbox.wiring, RecoveryRequest()).rows == 0
    there = outbox.broker.durable.copy()
    outbox.broker.durable.clear()
    outbox.recover()
    outbox.broker.durable[:0] = there


def backfill(outbox: Outbox) -> None:
    lose(outbox)
    outbox.database.execute("DELETE FROM walrelay.slots")
    assert outbox.backfill()


def replay_letter(outbox: Outbox) -> None:
    """The row once more, which is refused."""
    (topic,) = {message.topic for message in outbox.broker.durable}
    outbox.broker.refused = {topic}
    outbox.database.execute("CREATE TABLE kept AS TABLE outbox; DELETE FROM outbox")
    outbox.database.execute("INSERT INTO outbox TABLE kept")
    confirmed(outbox)
    outbox.broker.refused = set()
    assert [each.outcome for each in replay(outbox)] == ["replayed"]


COMMANDS: dict[str, Callable[[Outbox], None]] = {
    "replay": lambda outbox: replay_rows(outbox, everything=True),
    "dlq replay": replay_letter,
    "recover": recover,
    "init --backfill": backfill,
}


QUICK = {("cloudevents", "recover"), ("masstransit", "replay"), ("spring", "recover"), ("tenants", "init --backfill")}
QUICK |= {
    ("json schema", "init --backfill"),
    ("json schema", "dlq replay"),
    ("debezium", "replay"),
    ("tenants", "recover"),
}


@pytest.mark.parametrize(
    ("form", "command"),
    [
        pytest.param(form, command, marks=[] if (form, command) in QUICK else [pytest.mark.slow])
        for form in FORMS
        for command in COMMANDS
    ],
)
def test_what_publishes_from_the_table_gives_the_form_of_the_stream(
    database: Database, way: str, tmp_path: Path, form: str, command: str
) -> None:
    sections: dict[str, Any] = {name: dict(section) for name, section in FORMS[form].items()}
    if form == "json schema":
        path = tmp_path / "order.json"
        path.write_text(json.dumps(SCHEMA))
        sections["route"]["schema"] = {**sections["route"]["schema"], "file": str(path)}
        sections["schema_registry"] = {"url": f"mock://{database.name}"}
    if form in TABLES:
        database.execute(TABLES[form])
        sections["outbox"] = {"table": "outbox"}
    outbox = Outbox(database, way, refusals={"policy": "dead_letter"}, **sections)
    outbox.init()
    database.execute(ROW.get(form, ROW[""]))
    confirmed(outbox)
    (streamed,) = outbox.broker.durable
    COMMANDS[command](outbox)
    assert [content(each) for each in outbox.broker.durable] == [content(streamed)] * 2


class TwoSinks:
    """An outbox whose rows go to both sinks, and the broker of each."""

    def __init__(self, database: Database, way: str, **sections: Any) -> None:
        self.eu, self.us = Broker(), Broker()
        sinks = {
            name: {"kind": KIND, "settings": RecordingSettings(broker=broker)}
            for name, broker in (("eu", self.eu), ("us", self.us))
        }
        route = {"topic": "a", "sink": ["eu", "us"], **sections.pop("route", {})}
        self.outbox = Outbox(database, way, sinks=sinks, route=route, **{**BLOCKING, **AT_ONCE, **sections})

    def values(self) -> dict[str, list[str]]:
        """What each broker has, in its order."""
        return {
            name: [(message.value or b"").decode() for message in without_sentinels(broker.durable)]
            for name, broker in (("eu", self.eu), ("us", self.us))
        }

    def write(self, number: int, key: str) -> None:
        self.outbox.database.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, tenant_id)"
            " VALUES ('order', %s, 'placed', %s, %s)",
            [key, str(number), key],
        )

    def lose(self) -> None:
        lose(self.outbox)


def statuses(outbox: Outbox) -> list[tuple[str | None, str]]:
    """Place and status of each dead letter, in order."""
    return outbox.database.execute("SELECT topic, status FROM walrelay.dead_letters ORDER BY commit_lsn, number")


@pytest.fixture
def two(database: Database, way: str) -> TwoSinks:
    """Rows 1 and 3 of key k, and 2 of key l, are published; us refused 1."""
    made = TwoSinks(database, way)
    made.outbox.init()
    made.us.refused = {"a"}
    made.write(1, "k")
    with made.outbox.relay() as relay:
        relay.wait_until(lambda: statuses(made.outbox), "the dead letter")
        made.us.refused = set()
        made.write(2, "l")
        made.write(3, "k")
        relay.confirms(made.outbox.end_of_wal())
    assert statuses(made.outbox) == [("us:a", "waiting"), ("us:a", "blocked")]
    assert made.values() == {"eu": ["1", "2", "3"], "us": ["2"]}
    return made


def test_a_key_waits_at_the_sink_that_refused_it_alone(two: TwoSinks) -> None:
    assert [each.outcome for each in replay(two.outbox)] == ["replayed"] * 2
    assert two.values() == {"eu": ["1", "2", "3"], "us": ["2", "1", "3"]}


def test_a_recovery_gives_each_sink_the_messages_that_it_lacks(two: TwoSinks) -> None:
    two.write(4, "k")
    two.write(5, "l")
    two.us.durable.clear()
    two.lose()
    two.outbox.recover()
    assert two.values() == {"eu": ["1", "2", "3", "4", "5"], "us": ["2", "5"]}
    assert statuses(two.outbox) == [("us:a", "waiting"), ("us:a", "blocked"), ("us:a", "blocked")]
    replay(two.outbox)
    assert two.values()["us"] == ["2", "5", "1", "3", "4"]


def test_a_backfill_gives_every_sink_its_rows_but_for_their_dead_letters(two: TwoSinks) -> None:
    two.eu.durable.clear()
    two.us.durable.clear()
    two.lose()
    two.outbox.database.execute("DELETE FROM walrelay.slots")
    assert two.outbox.backfill()
    assert two.values() == {"eu": ["1", "2", "3"], "us": ["2"]}
    replay(two.outbox)
    assert two.values()["us"] == ["2", "1", "3"]


def test_a_clean_up_and_a_recovery_leave_a_key_behind_the_letter_of_a_row_that_is_gone(two: TwoSinks) -> None:
    with two.outbox.relay():
        assert clean(two.outbox).rows == 3
    two.write(4, "k")
    two.lose()
    two.outbox.recover()
    assert left(two.outbox) == [4]
    assert two.values() == {"eu": ["1", "2", "3", "4"], "us": ["2"]}
    replay(two.outbox)
    assert two.values()["us"] == ["2", "1", "3", "4"]


def marked(outbox: Outbox) -> list[int]:
    """The rows that have a mark after one more pass."""
    with Session(outbox.wiring.dsn) as session:
        mark(session, outbox.wiring, Marks("marked IS NULL", "marked = true"), Event().wait)
    return [number for (number,) in outbox.database.execute("SELECT payload::int FROM outbox WHERE marked ORDER BY 1")]


def test_a_row_is_marked_once_every_sink_has_it_and_every_letter_of_its_key_was_replayed(two: TwoSinks) -> None:
    two.outbox.database.execute("ALTER TABLE outbox ADD marked bool")
    with two.outbox.relay():
        assert marked(two.outbox) == [2]
        replay(two.outbox)
        assert marked(two.outbox) == [1, 2, 3]


def test_marks_follow_a_recovery_and_its_blocked_rows(two: TwoSinks) -> None:
    two.outbox.database.execute("ALTER TABLE outbox ADD marked bool")
    two.write(4, "k")
    two.write(5, "l")
    two.lose()
    two.outbox.recover()
    with two.outbox.relay():
        assert marked(two.outbox) == [2, 5]
        replay(two.outbox)
        assert marked(two.outbox) == [1, 2, 3, 4, 5]


def test_marks_follow_a_backfill_rules_and_the_clean_up(make_outbox: OutboxMaker) -> None:
    rules = [{"name": "dropped", "when": {"payload": 2}, "drop": True}, {"name": "rest", "topic": "a"}]
    outbox = make_outbox(routes=rules, **AT_ONCE)
    outbox.database.execute("ALTER TABLE outbox ADD marked bool")
    lose(outbox)
    outbox.write(1, 2, 3)
    outbox.database.execute("DELETE FROM walrelay.slots")
    assert outbox.backfill()
    with outbox.relay() as relay:
        outbox.write(4, 2)
        relay.confirms(outbox.end_of_wal())
        assert marked(outbox) == [1, 2, 2, 3, 4]
        assert clean(outbox).rows == 5
        outbox.write(6)
        relay.confirms(outbox.end_of_wal())
        assert marked(outbox) == [6]
    assert [message.value for message in without_sentinels(outbox.broker.durable)] == [b"1", b"3", b"4", b"6"]


def test_several_sinks_each_have_their_tenants_schemas_and_envelopes(
    database: Database, way: str, tmp_path: Path
) -> None:
    path = tmp_path / "order.json"
    path.write_text('{"type": "integer", "title": "Order"}')
    own = {"topic": "of-{tenant_id}", "schema": {"format": "json-schema", "auto_register": True, "file": str(path)}}
    rules = [
        {"name": "eu", "sink": "eu", "continue": True, **own, "envelope": {"kind": "cloudevents", "source": "/x"}},
        {"name": "us", "sink": "us", **own},
    ]
    registry = {"url": f"mock://{database.name}"}
    made = TwoSinks(database, way, routes=rules, route={"sink": None}, schema_registry=registry)
    made.outbox.init()
    made.write(1, "acme")
    made.write(2, "globex")
    made.outbox.write("no number")
    confirmed(made.outbox)
    for broker in (made.eu, made.us):
        assert [(each.topic, each.value[:1], each.value[5:]) for each in broker.durable if each.value] == [
            ("of-acme", b"\0", b"1"),
            ("of-globex", b"\0", b"2"),
        ]
    assert [{name for name, _ in each.headers} >= {"ce_id"} for each in (*made.eu.durable, *made.us.durable)] == [
        *(True, True, False, False)
    ]
    assert statuses(made.outbox) == [(None, "waiting")]


def test_a_blocked_key_of_one_tenant_holds_up_no_other_tenant(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(route={"topic": "of-{tenant_id}"}, **BLOCKING)
    outbox.broker.refused = {"of-acme"}
    row = "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, tenant_id) VALUES ('o', 'k', 't', %s, %s)"
    with outbox.relay() as relay:
        outbox.database.execute(row, ["0", "acme"])
        relay.wait_until(lambda: statuses(outbox), "the dead letter")
        outbox.broker.refused = set()
        for number, tenant in ((1, "globex"), (2, "acme"), (3, "globex")):
            outbox.database.execute(row, [str(number), tenant])
        relay.confirms(outbox.end_of_wal())
    assert [message.value for message in outbox.broker.durable] == [b"1", b"3"]
    assert statuses(outbox) == [("of-acme", "waiting"), ("of-acme", "blocked")]
    replay(outbox)
    assert [message.value for message in outbox.broker.durable] == [b"1", b"3", b"0", b"2"]


def paused(outbox: Outbox, wanted: bool) -> None:
    """Asks for a pause or its end by SQL, and waits until the relay says that it obeys."""
    slot = outbox.settings.source.slot
    outbox.database.execute("UPDATE walrelay.relays SET paused = %s WHERE slot_name = %s", [wanted, slot])
    state = "SELECT state = %s FROM walrelay.relays WHERE slot_name = %s"
    expected = "paused" if wanted else "streaming"
    wait_until(lambda: outbox.database.execute(state, [expected, slot]) == [(True,)], 30, expected)


@pytest.mark.slow  # the pause gives that sink its time
def test_a_pause_while_one_sink_says_nothing_loses_and_reorders_nothing(database: Database, way: str) -> None:
    made = TwoSinks(database, way)
    made.outbox.init()
    made.us.withhold()
    with made.outbox.relay() as relay:
        relay.streams()
        made.write(1, "k")
        relay.wait_until(lambda: made.values()["eu"] == ["1"], "the other sink")
        paused(made.outbox, True)
        made.write(2, "k")
        made.us.release()
        assert made.values()["us"] in ([], ["1"])
        paused(made.outbox, False)
        relay.confirms(made.outbox.end_of_wal())
    for found in made.values().values():
        assert list(dict.fromkeys(found)) == ["1", "2"]


def test_an_instance_takes_over_while_one_sink_is_behind_the_other(database: Database, way: str) -> None:
    made = TwoSinks(database, way)
    made.outbox.init()
    made.us.withhold()
    with made.outbox.relay() as leader:
        leader.streams()
        with made.outbox.relay() as next_leader:
            made.write(1, "k")
            made.write(2, "k")
            leader.wait_until(lambda: made.values()["eu"] == ["1", "2"], "the sink that is ahead")
            made.eu.break_after(0, Killed)
            made.write(3, "k")
            leader.dies()
            made.us.release()
            next_leader.confirms(made.outbox.end_of_wal())
    for found in made.values().values():
        assert list(dict.fromkeys(found)) == ["1", "2", "3"]


def test_a_paused_relay_keeps_rows_that_it_did_not_publish_from_the_clean_up(make_outbox: OutboxMaker) -> None:
    outbox = make_outbox(**AT_ONCE)
    with outbox.relay() as relay:
        relay.streams()
        outbox.write(1)
        relay.confirms(outbox.end_of_wal())
        paused(outbox, True)
        outbox.write(2)
        with pytest.raises(Fatal, match="not known to be published"):
            clean(outbox, patience=1.0)
        assert left(outbox)[-1] == 2
        paused(outbox, False)
        assert clean(outbox).rows >= 1
        assert left(outbox) == []


def test_a_key_of_debeziums_router_waits_and_rows_without_a_time_are_kept(database: Database, way: str) -> None:
    database.execute(TABLES["debezium"])
    options = {"table.field.event.key": "shard", "route.topic.replacement": "a"}
    database.execute("ALTER TABLE outbox ADD shard text, ADD marked bool")
    outbox = Outbox(database, way, outbox={"table": "outbox"}, debezium=options, **BLOCKING, **AT_ONCE)
    outbox.init()
    row = (
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, shard)"
        " VALUES (gen_random_uuid(), 'a', %s, 't', %s, %s)"
    )
    outbox.broker.refused = {"a"}
    with outbox.relay() as relay:
        database.execute(row, ["1", "1", "k"])
        relay.wait_until(lambda: statuses(outbox), "the dead letter")
        outbox.broker.refused = set()
        database.execute(row, ["2", "2", "k"])
        database.execute(row, ["3", "3", "l"])
        relay.confirms(outbox.end_of_wal())
        assert [message.value for message in outbox.broker.durable] == [b"3"]
        replay(outbox)
        acts: tuple[Callable[[Outbox], object], ...] = (marked, clean)
        for act in acts:
            with pytest.raises(Fatal, match="nothing says how old the rows"):
                act(outbox)
    assert database.execute("SELECT count(*) FROM outbox WHERE marked IS NULL") == [(3,)]
    assert [message.value for message in outbox.broker.durable] == [b"3", b"1", b"2"]
