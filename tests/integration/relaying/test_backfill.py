"""`walrelay init --backfill`: the rows in the table, then those of the stream, without a gap or a repetition."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from tests.integration.relaying.broker import Killed
from tests.integration.relaying.harness import Outbox, header, position, small, without_sentinels
from tests.integration.relaying.ways import PGOUTPUT
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Message
from walrelay.observe import Backfilling
from walrelay.operations import setup
from walrelay.postgres.catalog import Catalog
from walrelay.table.backfill_journal import refuse_unfinished_backfill

any_way = pytest.mark.parametrize("way", ["text"])  # the table is read in one way only


@pytest.fixture
def outbox(database: Database, way: str) -> Outbox:
    """The table that `walrelay init` makes, without a slot or publication."""
    fresh = Outbox(database, way)
    with Catalog(database.dsn) as catalog:
        wiring = fresh.wiring
        steps = [step for step in setup.plan_backfill(catalog, wiring) if step.what.startswith(("schema", "table"))]
        list(setup.apply(catalog, wiring, steps, patience=5))
    return fresh


@pytest.fixture
def batches_of_10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.table.rows.BATCH_ROWS", 10)


def ids(messages: list[Message]) -> list[bytes | None]:
    return [header(message, "id") for message in messages]


def content(message: Message) -> tuple[Any, ...]:
    """Everything but where and when the record was committed."""
    headers = [(name, value) for name, value in message.headers if name != "position"]
    return message.topic, message.key, message.value, headers


@contextmanager
def writers(outbox: Outbox) -> Iterator[Callable[[], None]]:
    """Three of them, whose transactions overlap; yields what ends them."""
    halt = Event()

    def write(rng: random.Random) -> None:
        with outbox.database.connect(autocommit=False) as connection:
            while not halt.wait(rng.random() / 200):
                outbox.write(*(rng.random() for _ in range(rng.randint(1, 5))), connection=connection)
                if halt.wait(rng.random() / 200) or rng.random() < 0.2:
                    connection.rollback()
                connection.commit()

    threads = [Thread(target=write, args=(random.Random(seed),), daemon=True) for seed in range(3)]

    def end() -> None:
        halt.set()
        for thread in threads:
            thread.join(20)

    for thread in threads:
        thread.start()
    yield end
    end()


def rows_written(outbox: Outbox) -> Counter[bytes | None]:
    return Counter(str(row).encode() for (row,) in outbox.database.execute("SELECT id::text FROM outbox"))


def test_rows_and_stream_together_have_no_gap_and_no_overlap_under_concurrent_writers(outbox: Outbox) -> None:
    with writers(outbox) as end:
        wait_until(lambda: len(rows_written(outbox)) > 300, 20, "rows")
        assert outbox.backfill()
        from_the_table = len(outbox.broker.durable)
        with outbox.relay() as relay:
            relay.wait_until(lambda: len(outbox.broker.durable) > from_the_table + 300, "the stream")
            end()
            messages = outbox.messages(relay)
    assert from_the_table > 300
    assert Counter(ids(messages)) == rows_written(outbox)
    assert sorted(map(position, messages)) == [position(message) for message in messages]


@any_way
def test_rows_come_in_the_order_of_created_at_and_then_of_id(outbox: Outbox) -> None:
    outbox.write(*range(5))
    outbox.database.execute(
        "UPDATE outbox SET created_at = CASE payload #>> '{}' WHEN '0' THEN '2026-03-01' WHEN '1' THEN '2026-01-01'"
        " ELSE '2026-02-01' END::timestamptz"
    )
    order = outbox.database.execute("SELECT id::text FROM outbox ORDER BY created_at, id")
    outbox.backfill()
    assert ids(outbox.broker.durable) == [row.encode() for (row,) in order]
    assert outbox.broker.durable[0].value == b"1"
    assert outbox.broker.durable[-1].value == b"0"


@any_way
def test_a_message_from_the_table_has_the_time_when_its_row_was_written(outbox: Outbox) -> None:
    outbox.write(1)
    outbox.database.execute("UPDATE outbox SET created_at = '2026-01-02 03:04:05.678901+00'")
    outbox.backfill()
    assert outbox.broker.durable[0].timestamp_ms == 1767323045678


def test_positions_of_rows_are_unique_and_below_all_that_is_streamed(outbox: Outbox) -> None:
    outbox.write(*range(3))
    outbox.backfill()
    ((consistent,),) = outbox.database.execute("SELECT created_lsn::text FROM walrelay.slots")
    outbox.write(3)
    with outbox.relay() as relay:
        *rows, streamed = map(position, outbox.messages(relay))
    assert rows == [(LSN(LSN.parse(consistent) - 2), ordinal) for ordinal in range(3)]
    assert streamed[0] >= LSN.parse(consistent)


@pytest.mark.parametrize(
    ("types", "values"),
    [
        (
            "id uuid, aggregate_id bigint, type varchar(10), payload jsonb",
            ["00000000-0000-0000-0000-00000000ABCD", "-9", "ä b", '{"a":  1.50, "a": 2}'],
        ),
        (
            "id char(6), aggregate_id text, type boolean, payload json",
            ["ab", "NaN", "true", '{"b": 1,  "a" : "ß\\u00e9"}'],
        ),
        (
            "id timestamptz, aggregate_id int, type name, payload bytea",
            ["2026-01-02 03:04:05.60+01", "07", "n", "\\x00ff5c78"],
        ),
        (
            "id numeric, aggregate_id mood, type short, payload text",
            ["7.10", "so so", "ab", 'ß "quoted" \\ \x01\x7f\r\n\t%s'],
        ),
        (
            "id int, aggregate_id float8, type interval, payload date[]",
            ["1", "0.30000000000000004", "1 day 2 hours", "{2026-01-02,NULL}"],
        ),
        ("id int, aggregate_id text, type text, payload text", ["1", None, None, None]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_row_of_the_table_and_an_equal_one_of_the_stream_make_the_same_message(
    database: Database, way: str, types: str, values: list[str | None]
) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('so so'); CREATE DOMAIN short AS text CHECK (length(VALUE) < 5)")
    for setting in ("DateStyle = 'German'", "IntervalStyle = 'iso_8601'", "bytea_output = 'escape'", "TimeZone = 'NZ'"):
        database.server.execute(f"ALTER DATABASE {database.name} SET {setting}")
    database.execute(f"CREATE TABLE t ({types})")
    outbox = Outbox(database, way, **small(type="type"))
    database.execute("INSERT INTO t VALUES (%s, %s, %s, %s)", values)
    outbox.backfill()
    database.execute("INSERT INTO t VALUES (%s, %s, %s, %s)", values)
    with outbox.relay() as relay:
        backfilled, streamed = outbox.messages(relay)
    assert content(backfilled) == content(streamed)


def test_every_role_of_a_row_makes_the_same_message_from_the_table_and_from_the_stream(outbox: Outbox) -> None:
    event = (
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload, headers, topic, tenant_id)"
        " VALUES (%s, 'order', 'o-1', 'placed', '{\"b\": 1.50}', '{\"trace\": \"00-1\", \"n\": 1.0}', %s, 't')"
    )
    same = "00000000-0000-4000-8000-0000000000ff"
    outbox.database.execute(event, [same, "elsewhere"])
    outbox.backfill()
    outbox.database.execute("DELETE FROM outbox")
    outbox.database.execute(event, [same, "elsewhere"])
    with outbox.relay() as relay:
        backfilled, streamed = outbox.messages(relay)
    assert content(backfilled) == content(streamed)
    assert backfilled.topic == "elsewhere"


@any_way
@pytest.mark.usefixtures("batches_of_10")
def test_a_backfill_killed_again_and_again_repeats_less_than_a_batch_each_time(outbox: Outbox) -> None:
    kills = 6
    outbox.write(*range(95))
    with writers(outbox) as end:
        for _ in range(kills):
            outbox.broker.break_after(17, Killed)
            with pytest.raises(Killed):
                outbox.backfill()
        outbox.backfill()
        with outbox.relay() as relay:
            end()
            messages = outbox.messages(relay)
    delivered, written = Counter(ids(messages)), rows_written(outbox)
    assert delivered.keys() == written.keys()
    assert delivered.total() - written.total() <= 10 * kills


@any_way
@pytest.mark.usefixtures("batches_of_10")
def test_rows_that_come_between_two_attempts_are_published_wherever_they_stand_in_the_order(outbox: Outbox) -> None:
    outbox.write(*range(30))
    with outbox.database.connect(autocommit=False) as late:
        late.execute("CREATE TEMP TABLE other (n int)")  # its transaction is older than the rows that it will write
        outbox.broker.break_after(25, Killed)
        with pytest.raises(Fatal, match="waits for open transactions"):
            outbox.backfill(patience=0.3)
        outbox.write("late", connection=late)
    with pytest.raises(Killed):
        outbox.backfill()
    outbox.write("early")
    outbox.database.execute("UPDATE outbox SET created_at = '2020-01-01' WHERE payload = '\"early\"'")
    outbox.backfill()
    assert set(ids(outbox.broker.durable)) == rows_written(outbox).keys()
    assert outbox.watcher.of(Backfilling)[-1] == (12, 20)


@any_way
@pytest.mark.usefixtures("batches_of_10")
def test_what_an_attempt_reached_still_counts_when_the_next_one_did_not_get_so_far(outbox: Outbox) -> None:
    outbox.write(*range(30))
    outbox.broker.break_after(25, Killed)
    with pytest.raises(Killed):
        outbox.backfill()
    outbox.write(*("early" for _ in range(12)))
    outbox.database.execute("UPDATE outbox SET created_at = '2020-01-01' WHERE payload = '\"early\"'")
    outbox.broker.break_after(13, Killed)
    with pytest.raises(Killed):
        outbox.backfill()
    outbox.backfill()
    assert outbox.watcher.of(Backfilling) == [(30, 0), (22, 20), (12, 30)]
    assert set(ids(outbox.broker.durable)) == rows_written(outbox).keys()


@any_way
@pytest.mark.usefixtures("batches_of_10")
def test_a_stop_leaves_in_good_order_and_repeats_nothing(outbox: Outbox) -> None:
    outbox.write(*range(45))
    stop, offered = Event(), outbox.broker.offered

    class Stopping(list[Message]):
        def append(self, message: Message) -> None:
            super().append(message)
            if len(self) == 15:
                stop.set()

    outbox.broker.offered = Stopping(offered)
    assert not outbox.backfill(stop=stop)
    assert len(outbox.broker.durable) == 20
    assert outbox.backfill()
    assert Counter(ids(outbox.broker.durable)) == rows_written(outbox)


@any_way
@pytest.mark.usefixtures("batches_of_10")
def test_rows_with_equal_ids_and_times_are_all_published_when_a_batch_ends_between_them(
    database: Database, way: str
) -> None:
    database.execute("CREATE TABLE t (id int, aggregate_id int, payload text)")
    database.execute("INSERT INTO t SELECT n / 15, 0, n FROM generate_series(1, 60) n")
    outbox = Outbox(database, way, **small())
    for _ in range(2):
        outbox.broker.break_after(21, Killed)
        with pytest.raises(Killed):
            outbox.backfill()
    outbox.backfill()
    assert {message.value for message in outbox.broker.durable} == {str(n).encode() for n in range(1, 61)}


@any_way
def test_neither_init_nor_the_relay_takes_an_unfinished_backfill_for_a_finished_one(outbox: Outbox) -> None:
    outbox.write(*range(3))
    outbox.broker.break_after(2, Killed)
    with pytest.raises(Killed):
        outbox.backfill()
    with Catalog(outbox.database.dsn) as catalog:
        with pytest.raises(Fatal, match="did not finish") as caught:
            refuse_unfinished_backfill(catalog, outbox.settings.source.slot)
        assert "walrelay init --backfill" in caught.value.hint
        with pytest.raises(Fatal, match="did not finish"):
            outbox.init()
        outbox.backfill()
        refuse_unfinished_backfill(catalog, outbox.settings.source.slot)


@any_way
def test_a_backfill_beside_another_is_refused(outbox: Outbox) -> None:
    outbox.write(1)
    outbox.broker.withhold()
    first = Thread(target=outbox.backfill)
    first.start()
    wait_until(lambda: outbox.broker.offered, 10, "the first one to publish")
    with pytest.raises(Fatal, match="another process"):
        outbox.backfill()
    outbox.broker.release()
    first.join(10)
    assert len(outbox.broker.durable) == 1


@any_way
def test_a_slot_that_is_there_is_not_backfilled(outbox: Outbox) -> None:
    outbox.init()
    outbox.write(1)
    with pytest.raises(Fatal, match="is there already") as caught:
        outbox.backfill()
    assert "walrelay recover" in caught.value.hint
    assert outbox.broker.offered == []


@any_way
def test_a_slot_that_is_dropped_meanwhile_is_not_taken_for_ready(outbox: Outbox) -> None:
    outbox.write(1)
    outbox.broker.withhold()
    failures: list[Fatal] = []

    def backfill() -> None:
        try:
            outbox.backfill()
        except Fatal as error:
            failures.append(error)

    thread = Thread(target=backfill)
    thread.start()
    wait_until(lambda: outbox.broker.offered, 10, "the backfill to publish")
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
    outbox.broker.release()
    thread.join(10)
    assert "was dropped, moved or lost" in str(failures[0])
    outbox.write(2)
    assert outbox.backfill()
    assert outbox.watcher.of(Backfilling)[-1][1] <= 1
    assert {message.value for message in outbox.broker.durable} == {b"1", b"2"}


@any_way
def test_an_open_transaction_that_the_slot_waits_for_is_named(outbox: Outbox) -> None:
    with outbox.database.connect(autocommit=False, application_name="the writer") as writer:
        writer.execute("CREATE TABLE open (n int)")
        with pytest.raises(Fatal, match=f"PID {writer.info.backend_pid} 'the writer' idle in transaction"):
            outbox.backfill(patience=0.3)
    assert outbox.backfill()


@any_way
def test_rows_that_a_policy_hides_are_not_passed_over(outbox: Outbox) -> None:
    role = f"policed_{outbox.database.name}"
    outbox.write(1)
    outbox.database.execute("ALTER TABLE outbox ENABLE ROW LEVEL SECURITY")
    outbox.init()
    outbox.database.drop_slots()
    outbox.database.execute("DELETE FROM walrelay.slots")
    outbox.database.execute(f"CREATE ROLE {role} LOGIN REPLICATION")
    try:
        outbox.database.execute(
            f"GRANT SELECT ON outbox TO {role}; GRANT USAGE ON SCHEMA public, walrelay TO {role};"
            f" GRANT ALL ON walrelay.slots TO {role}"
        )
        policed = outbox.under(source={"dsn": f"{outbox.database.dsn}".replace("postgres@", f"{role}@")})
        with pytest.raises(Fatal, match="row-level security"):
            policed.backfill()
    finally:
        outbox.database.drop_slots()
        outbox.database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert outbox.broker.offered == []


@pytest.mark.parametrize("way", PGOUTPUT)
def test_rows_that_the_publication_leaves_out_are_left_out_here_too(outbox: Outbox) -> None:
    if outbox.database.server.major < 15:
        pytest.skip("publications have row filters since PostgreSQL 15")
    name = outbox.settings.source.publication
    outbox.database.execute(
        f"CREATE PUBLICATION {name} FOR TABLE outbox WHERE (aggregate_id <> '1%') WITH (publish = 'insert')"
    )
    outbox.write("1%", 2)
    outbox.backfill()
    outbox.write("1%", 3)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"2", b"3"]


@pytest.mark.parametrize("way", PGOUTPUT)
def test_partitions_are_read_and_tables_that_inherit_are_not(database: Database, way: str) -> None:
    columns = "id int, aggregate_id int, payload text"
    database.execute(f"CREATE TABLE t ({columns}) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)")
    database.execute(f"CREATE TABLE u ({columns})")
    database.execute("CREATE TABLE heir () INHERITS (u)")
    for table in ("t", "u"):
        settings = small()
        settings["outbox"]["table"] = table
        outbox = Outbox(database, way, **settings)
        database.execute(f"INSERT INTO {table} VALUES (1, 1, 'one'), (11, 1, 'eleven')")
        database.execute("INSERT INTO heir VALUES (5, 1, 'not ours')")
        outbox.backfill()
        database.execute(f"INSERT INTO {table} VALUES (12, 1, 'twelve')")
        with outbox.relay() as relay:
            assert outbox.values(relay) == [b"one", b"eleven", b"twelve"]
        outbox.database.drop_slots()
        database.execute("DELETE FROM walrelay.slots; DROP PUBLICATION walrelay")


@any_way
def test_a_broker_that_is_away_in_the_middle_is_met_with_a_new_attempt(outbox: Outbox) -> None:
    outbox.write(*range(5))
    outbox.broker.break_after(3)
    assert outbox.backfill()
    assert len(outbox.watcher.retries) == 1
    assert set(ids(without_sentinels(outbox.broker.durable))) == rows_written(outbox).keys()


@any_way
def test_a_slot_that_survives_a_failover_is_made_so_by_a_backfill_too(postgres18: PostgresServer, way: str) -> None:
    if postgres18.major < 17:
        pytest.skip("slots are synchronised to standbys since PostgreSQL 17")
    fresh = postgres18.create_database()
    try:
        outbox = Outbox(fresh, way, source={"failover": True})
        assert outbox.backfill()
        outbox.write(1)
        assert outbox.slot("failover")
        with outbox.relay() as relay:
            assert outbox.values(relay) == [b"1"]
    finally:
        fresh.drop()


@any_way
def test_a_server_that_crashes_in_the_middle_is_met_with_a_new_attempt(own_server: PostgresServer, way: str) -> None:
    fresh = own_server.create_database()
    outbox = Outbox(fresh, way)
    with Catalog(fresh.dsn) as catalog:
        wiring = outbox.wiring
        steps = [step for step in setup.plan_backfill(catalog, wiring) if step.what.startswith(("schema", "table"))]
        list(setup.apply(catalog, wiring, steps, patience=5))
    outbox.write(*range(30))
    outbox.broker.withhold()
    thread = Thread(target=outbox.backfill)
    thread.start()
    wait_until(lambda: outbox.broker.offered, 10, "the backfill to publish")
    own_server.restart("immediate")
    outbox.broker.release()
    thread.join(20)
    assert outbox.watcher.retries
    assert set(ids(outbox.broker.durable)) == rows_written(outbox).keys()
    with outbox.relay() as relay:
        outbox.write(30)
        assert outbox.values(relay)[-1] == b"30"
    fresh.drop()
