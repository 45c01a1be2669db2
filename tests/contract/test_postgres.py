"""What the target database's answers mean, what fits into a row, and what exactly once is there."""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import pytest

from tests.brokers.postgres import PostgresCase, execute
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal, Retryable, Superseded
from walrelay.lsn import LSN
from walrelay.model import Message, Receipt, RelayPosition, System
from walrelay.publish import ExactlyOnceSink, Sink
from walrelay.sinks.postgres.plugin import plugin
from walrelay.sinks.postgres.position_keeper import PostgresPositionKeeper
from walrelay.testing import complains, failure, message, numbers, publish, refusal, settle

SYSTEM = System("7301", 1)
OPENED = [False, True]


@pytest.fixture
def case(stoppable_postgres: PostgresServer) -> Iterator[PostgresCase]:
    with closing(PostgresCase(stoppable_postgres)) as made:
        yield made


def fenced(case: PostgresCase, system: System = SYSTEM, **settings: Any) -> ExactlyOnceSink:
    sink = case.open_exactly_once(system, "slot", **settings)
    wait_until(sink.fence, 20, "the fence")
    return sink


def opened(case: PostgresCase, *, exactly_once: bool, **settings: Any) -> Sink:
    return fenced(case, **settings) if exactly_once else case.open(**settings)


def commit(sink: ExactlyOnceSink, case: PostgresCase, numbered: range, end: int) -> None:
    """One transaction of these messages, durable."""
    for number in numbered:
        assert sink.publish(message(case, number), ticket=end)
    sink.mark(LSN(end))
    settled = settle(sink, len(numbered))
    assert settled == {end: len(numbered)}


def position(lsn: int) -> RelayPosition:
    return RelayPosition(SYSTEM, "slot", LSN(lsn))


def with_value(case: PostgresCase, number: int, value: bytes | None) -> Message:
    return message(case, number)._replace(value=value)


@pytest.mark.parametrize(
    ("column", "value", "reason", "error"),
    [
        ("text", b"a\0b", "the value has a zero byte, which PostgreSQL's text cannot have", "serialization"),
        ("text", b"\xff", "the value is not UTF-8", "serialization"),
        ("jsonb", b'{"a": "\\u0000"}', "unsupported Unicode escape sequence (22P05)", "refused"),
        ("jsonb", b"no JSON", "invalid input syntax for type json (22P02)", "refused"),
        (
            "text CHECK (value <> 'bad')",
            b"bad",
            'violates check constraint "walrelay_events_value_check" (23514)',
            "refused",
        ),
        ("text NOT NULL", None, 'null value in column "value"', "refused"),
        ("text UNIQUE DEFERRABLE INITIALLY DEFERRED", b'"0"', "duplicate key value violates unique", "refused"),
    ],
)
@pytest.mark.parametrize("exactly_once", OPENED)
def test_the_one_message_that_the_table_does_not_take_is_found_and_refused(
    case: PostgresCase, column: str, value: bytes | None, reason: str, error: str, *, exactly_once: bool
) -> None:
    execute(case.database, "ALTER TABLE walrelay_events DROP value", f"ALTER TABLE walrelay_events ADD value {column}")
    poison = with_value(case, 5, value)
    messages = [with_value(case, number, f'"{number}"'.encode()) for number in range(10)]
    with closing(opened(case, exactly_once=exactly_once)) as sink:
        for each in [*messages[:5], poison, *messages[6:]]:
            assert sink.publish(each, 0)
        sink.mark(LSN(100))
        sink.flush(0)
        told = refusal(sink)
        assert told.message is poison
        assert reason in told.reason
        assert (told.error, told.scope, told.ends) == (error, "message", True)
        assert not sink.publish(messages[6], 0)
    stored = [got.value for got in case.arrived()]
    assert stored == ([] if exactly_once else [f'"{number}"'.encode() for number in range(5)])


@pytest.mark.parametrize(
    ("says", "state"),
    [
        ("RAISE EXCEPTION 'order is closed' USING ERRCODE = 'SHOP1'", "SHOP1"),
        ("RAISE EXCEPTION 'order is closed' USING ERRCODE = '55000'", "55000"),
        ("PERFORM nowhere(new.value)", "42883"),
        ("INSERT INTO audit VALUES (new.value)", "42P01"),
    ],
)
@pytest.mark.parametrize("exactly_once", OPENED)
def test_an_error_of_a_trigger_is_a_refusal_of_its_row(
    case: PostgresCase, says: str, state: str, *, exactly_once: bool
) -> None:
    execute(
        case.database,
        f"CREATE FUNCTION closed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {says}; RETURN new; END $$",
        "CREATE TRIGGER closed BEFORE INSERT ON walrelay_events FOR EACH ROW WHEN (new.value = 'bad')"
        " EXECUTE FUNCTION closed()",
    )
    poison = with_value(case, 0, b"bad")
    with closing(opened(case, exactly_once=exactly_once)) as sink:
        for each in (poison, message(case, 1), message(case, 2)):
            assert sink.publish(each, 0)
        sink.mark(LSN(100))
        sink.flush(0)
        told = refusal(sink)
    assert told.message is poison
    assert (told.error, told.scope) == ("refused", "message")
    assert told.reason.endswith(f"({state})")


@pytest.mark.parametrize("state", ["40001", "55P03", "53100"])
def test_a_trigger_that_asks_for_another_time_is_waited_for_with_its_sqlstate(case: PostgresCase, state: str) -> None:
    execute(
        case.database,
        f"CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'later' USING ERRCODE = '{state}';"
        " END $$",
        "CREATE TRIGGER later BEFORE INSERT ON walrelay_events FOR EACH ROW EXECUTE FUNCTION later()",
    )
    with closing(case.open()) as sink:
        assert sink.publish(message(case, 1), 0)
        complains(sink, f"later ({state})")


def test_after_a_refusal_messages_are_taken_one_by_one_and_the_next_one_ends_nothing(case: PostgresCase) -> None:
    poison = with_value(case, 1, b"\xff")
    with closing(case.open()) as sink:
        assert sink.publish(poison, 0)
        assert not refusal(sink).ends
        assert sink.publish(message(case, 2), 0)
        settle(sink, 1)
        assert sink.publish(poison, 0)
        assert not sink.publish(message(case, 3), 0), "taken before the one ahead of it was decided"
        assert not refusal(sink).ends
        settle(sink, 1, publish(sink, case, range(3, 4)))
    assert numbers(case.arrived()) == [2, 3]


@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        ("DROP TABLE walrelay_events", "unknown_topic", "init --topics"),
        ("ALTER TABLE walrelay_events DROP headers", "unknown_topic", "sink.columns"),
        ("REVOKE INSERT ON walrelay_events FROM writer", "not_authorized", "GRANT INSERT"),
    ],
)
@pytest.mark.parametrize("exactly_once", OPENED)
def test_a_table_that_takes_nothing_is_a_refusal_of_its_topic(
    case: PostgresCase, writer: str, statement: str, error: str, words: str, *, exactly_once: bool
) -> None:
    execute(case.database, statement)
    with closing(opened(case, exactly_once=exactly_once, dsn=writer)) as sink:
        for number in range(3):
            assert sink.publish(message(case, number), 0)
        sink.mark(LSN(100))
        sink.flush(0)
        told = refusal(sink)
        assert (told.message.value, told.error, told.scope) == (b"0", error, "topic")
        assert words in told.hint


@pytest.fixture
def writer(case: PostgresCase) -> Iterator[str]:
    """The DSN of a role that may only do what it must."""
    execute(
        case.database,
        "CREATE ROLE writer LOGIN PASSWORD 'right'",
        "GRANT INSERT ON walrelay_events TO writer",
        "GRANT SELECT, INSERT, UPDATE ON walrelay_positions TO writer",
    )
    yield case.database.dsn.replace("postgres@", "writer:right@")
    execute(case.database, "DROP OWNED BY writer", "DROP ROLE writer")


@pytest.mark.parametrize("exactly_once", OPENED)
def test_a_role_with_the_rights_that_the_page_names_is_enough(
    case: PostgresCase, writer: str, *, exactly_once: bool
) -> None:
    with closing(opened(case, exactly_once=exactly_once, dsn=writer)) as sink:
        assert sink.publish(message(case, 1), 0)
        sink.mark(LSN(100))
        settle(sink, 1)


def test_a_role_that_may_not_keep_positions_is_fatal_with_the_grant(case: PostgresCase, writer: str) -> None:
    execute(case.database, "REVOKE ALL ON walrelay_positions FROM writer")
    with (
        closing(case.open_exactly_once(SYSTEM, "slot", dsn=writer)) as sink,
        pytest.raises(Fatal, match=r"may not keep positions in public\.walrelay_positions") as why,
    ):
        wait_until(sink.fence, 20, "the fence")
    assert "GRANT SELECT, INSERT, UPDATE" in why.value.hint


@pytest.mark.parametrize("exactly_once", OPENED)
def test_a_database_that_does_not_exist_is_fatal_at_first_and_waited_for_later(
    case: PostgresCase, *, exactly_once: bool
) -> None:
    def tried() -> None:
        nowhere = case.database.dsn + "_nowhere"
        if exactly_once:
            with closing(case.open_exactly_once(SYSTEM, "slot", dsn=nowhere)) as sink:
                wait_until(sink.fence, 20, "the fence")
        else:
            with closing(case.open(dsn=nowhere)) as sink:
                complains(sink)

    with pytest.raises(Fatal, match=r"database .* does not exist") as why:
        tried()
    assert "sink.dsn" in why.value.hint
    if not exactly_once:
        case.memory.connected = True
        tried()


@pytest.mark.parametrize("exactly_once", OPENED)
def test_a_cut_connection_leaves_a_prefix(case: PostgresCase, *, exactly_once: bool) -> None:
    with closing(opened(case, exactly_once=exactly_once, group_messages=20)) as sink:
        assert sink.publish(message(case, 0), 0)
        sink.mark(LSN(99))
        settle(sink, 1)
        for number in range(1, 30):
            assert sink.publish(message(case, number), 0)
            sink.mark(LSN(100 + number))
        case.cut_connections()
        sink.publish(message(case, 30), 0)
        sink.mark(LSN(200))
        complains(sink, "the connection to the database of the sink broke, and it is not known")
    arrived = numbers(case.arrived())
    assert arrived == list(range(len(arrived)))


@pytest.mark.parametrize("exactly_once", OPENED)
def test_a_database_that_takes_no_writes_for_now_is_waited_for(case: PostgresCase, *, exactly_once: bool) -> None:
    with closing(opened(case, exactly_once=exactly_once)) as sink:
        settings = f"ALTER DATABASE {case.database.name} SET default_transaction_read_only"
        case.server.execute(f"{settings} = on")
        case.cut_connections()
    with closing(case.open()) as read_only:
        assert read_only.publish(message(case, 1), 0)
        complains(read_only, "cannot execute COPY FROM in a read-only transaction")
    case.server.execute(f"{settings} = off")
    with closing(opened(case, exactly_once=exactly_once)) as sink:
        assert sink.publish(message(case, 1), 0)
        sink.mark(LSN(100))
        settle(sink, 1)


def test_a_database_without_an_answer_is_connected_again(case: PostgresCase) -> None:
    with closing(fenced(case, request_timeout=0.5)) as sink:
        assert sink.last() is None
        assert sink.publish(message(case, 1), 0)
        case.hold()
        try:
            sink.mark(LSN(100))
            sink.flush(0)
            complains(sink, "has not answered for 0.5 s")
        finally:
            case.release()
        settle(sink, 1)
    assert numbers(case.arrived()) == [1]


@pytest.mark.parametrize("exactly_once", OPENED)
def test_sessions_of_runs_that_gave_up_do_not_pile_up_behind_a_lock(case: PostgresCase, *, exactly_once: bool) -> None:
    """An index that is being made, for an hour. Each of them would wait until the server has no room for more."""
    with psycopg.connect(case.database.dsn) as maintenance:
        maintenance.execute("LOCK TABLE walrelay_events")
        for _ in range(5):
            with closing(opened(case, exactly_once=exactly_once, request_timeout=0.5)) as sink:
                assert sink.publish(message(case, 0), 0)
                sink.mark(LSN(100))
                sink.flush(0)
                complains(sink)
        mine = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walrelay sink'"
        wait_until(lambda: case.database.execute(mine)[0][0] <= 1, 20, "the sessions to end")
    with closing(opened(case, exactly_once=exactly_once)) as sink:
        assert sink.publish(message(case, 0), 0)
        sink.mark(LSN(100))
        settle(sink, 1)
    assert numbers(case.arrived()) == [0]


@pytest.mark.parametrize("exactly_once", OPENED)
def test_a_table_that_is_too_slow_for_a_group_gets_smaller_ones(case: PostgresCase, *, exactly_once: bool) -> None:
    """Else the same group would be tried for ever, and never be done in time."""
    execute(
        case.database,
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END$$",
        "CREATE TRIGGER slow BEFORE INSERT ON walrelay_events FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    settled = 0
    for _ in range(12):  # runs
        with closing(opened(case, exactly_once=exactly_once, request_timeout=1)) as sink, suppress(Retryable):
            if exactly_once:  # a commit may have been done whose answer came too late
                settled = stored_before(sink)
            published = settled
            while settled < 40:
                while published < 40 and sink.publish(message(case, published), 0):
                    published += 1
                    sink.mark(LSN(100 + published))
                settled += sum(each.messages for each in sink.receipts(0.05) if isinstance(each, Receipt))
    assert settled == 40
    found = numbers(case.arrived())
    assert sorted({*found}) == [*range(40)]
    assert len(found) == 40 or not exactly_once


def stored_before(sink: Any) -> int:
    """How many of its messages the position says are there."""
    last = sink.last()
    return 0 if last is None else last.lsn - 100


@pytest.mark.parametrize("exactly_once", OPENED)
def test_a_commit_that_was_not_waited_for_is_no_receipt(case: PostgresCase, *, exactly_once: bool) -> None:
    """Who cancels the wait for a synchronous standby makes COMMIT return, with a warning."""
    waits = (
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'walrelay sink' AND wait_event = 'SyncRep'"
    )
    with closing(opened(case, exactly_once=exactly_once)) as sink:
        assert sink.publish(message(case, 0), 0)
        sink.mark(LSN(100))
        settle(sink, 1)
        standbys(case, "nobody")
        try:
            assert sink.publish(message(case, 1), 0)
            sink.mark(LSN(200))
            wait_until(lambda: not [*sink.receipts(0.05)] and case.database.execute(waits), 20, "the wait")
            complains(sink, "did not wait for its standbys")
        finally:
            standbys(case, "")
    if exactly_once:
        with closing(fenced(case)) as successor:
            assert successor.last() == position(200)


def standbys(case: PostgresCase, names: str) -> None:
    case.server.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    case.server.execute("SELECT pg_reload_conf()")
    shown = "SHOW synchronous_standby_names"
    wait_until(lambda: case.database.execute(shown) == [(names,)], 20, "the setting")


@pytest.mark.parametrize(
    ("before", "after", "using"),
    [("text", "bytea", "convert_to(value, 'UTF8')"), ("bytea", "text", "convert_from(value, 'UTF8')")],
)
@pytest.mark.parametrize("exactly_once", OPENED)
def test_a_column_that_is_altered_meanwhile_gets_what_was_sent(
    case: PostgresCase, before: str, after: str, using: str, *, exactly_once: bool
) -> None:
    """What is written for one type means something else for another."""
    alter = "ALTER TABLE walrelay_events ALTER value TYPE"
    execute(case.database, f"{alter} {before} USING NULL")
    value = b"a\\134b"
    with closing(opened(case, exactly_once=exactly_once)) as sink:
        assert sink.publish(with_value(case, 0, value), 0)
        sink.mark(LSN(100))
        settle(sink, 1)
        execute(case.database, f"{alter} {after} USING {using}")
        assert sink.publish(with_value(case, 1, value), 0)
        sink.mark(LSN(200))
        sink.flush(0)
        complains(sink, "were altered meanwhile")
    with closing(opened(case, exactly_once=exactly_once)) as successor:
        assert successor.publish(with_value(case, 1, value), 0)
        successor.mark(LSN(200))
        settle(successor, 1)
    stored = case.database.execute("SELECT value FROM walrelay_events ORDER BY seq")
    assert [text.encode() if isinstance(text, str) else bytes(text) for (text,) in stored] == [value, value]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("CREATE TABLE walrelay_positions (slot text)", "cannot hold positions: column p.backend_pid"),
        (
            "CREATE TABLE walrelay_positions (system_identifier text, slot_name text, epoch bigint DEFAULT 0,"
            " position text DEFAULT 'text', backend_pid int, backend_start timestamptz,"
            " PRIMARY KEY (system_identifier, slot_name))",
            "cannot be read: text",
        ),
    ],
)
def test_another_table_in_the_place_of_the_positions_is_fatal(
    case: PostgresCase, statement: str, complaint: str
) -> None:
    execute(case.database, "DROP TABLE walrelay_positions", statement)
    with pytest.raises(Fatal, match=complaint) as why:
        fenced(case)
    assert "sink.positions_table" in why.value.hint


def test_columns_have_the_names_and_types_of_the_table(case: PostgresCase) -> None:
    execute(
        case.database,
        "CREATE DOMAIN raw AS bytea",
        "CREATE DOMAIN short AS raw CHECK (length(VALUE) < 100)",
        'CREATE TABLE "Orders" ("Key" short, body jsonb, at timestamptz, event uuid, more json, raw raw)',
    )
    columns = {"id": "event", "topic": None, "key": "Key", "value": "body", "headers": "more", "timestamp": "at"}
    event = "01890a5d-ac96-774b-bcce-b302099a8057"
    headers: list[tuple[str, bytes | None]] = [("id", event.encode()), ("none", None), ('"\\\t\n', b'\\N\t"\r')]
    sent = Message("Orders", b"\xff\0\\", b'{"a": "\\\\\\n\\t"}', headers, 1_700_000_000_123)
    with closing(case.open(table='"{topic}"', columns=columns)) as sink:
        assert sink.publish(sent, 0)
        assert sink.publish(sent._replace(value=None, key=None), 0)
        settle(sink, 2)
    rows = case.database.execute(
        'SELECT "Key", body, extract(epoch FROM at) * 1000, event::text, more FROM "Orders" ORDER BY "Key" NULLS LAST'
    )
    stored = {name: None if value is None else value.decode() for name, value in headers}
    assert rows == [
        (b"\xff\0\\", json.loads(sent.value or b""), 1_700_000_000_123, event, stored),
        (None, None, 1_700_000_000_123, event, stored),
    ]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("{header.to}", "the message has none"),
        ("a.b.{topic}", "is not a table"),
        ("walrelay_positions", "is where relays keep their positions"),
    ],
)
def test_a_message_that_has_no_table_is_refused(case: PostgresCase, table: str, reason: str) -> None:
    with closing(case.open(table=table)) as sink:
        assert sink.publish(message(case, 1), 0)
        told = refusal(sink)
        assert (told.error, told.scope, told.ends) == ("unroutable", "message", False)
        assert reason in told.reason


def test_a_group_is_there_with_its_position_or_not_at_all(case: PostgresCase) -> None:
    with closing(fenced(case)) as sink:
        assert sink.last() is None
        commit(sink, case, range(3), end=100)
        assert sink.publish(message(case, 3), ticket=1)
        sink.flush(0.2)
        assert numbers(case.arrived()) == [0, 1, 2], "its transaction is not over"
    with closing(fenced(case)) as successor:
        assert successor.last() == position(100)
        commit(successor, case, range(3, 5), end=200)
    assert numbers(case.arrived()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("ends_its_session", OPENED)
def test_a_sink_that_another_one_fenced_off_publishes_nothing_more(
    case: PostgresCase, monkeypatch: pytest.MonkeyPatch, *, ends_its_session: bool
) -> None:
    """Also where its session cannot be ended, as behind a pooler."""
    if not ends_its_session:
        monkeypatch.setattr("walrelay.sinks.postgres.groups._OTHERS", "SELECT %s, %s FROM {}")
    with closing(fenced(case)) as zombie:
        commit(zombie, case, range(1), end=100)
        assert zombie.publish(message(case, 1), 0)
        with closing(fenced(case)) as leader:
            assert leader.last() == position(100)
            zombie.mark(LSN(200))
            zombie.flush(0)
            told = failure(zombie)
            assert ends_its_session or told == "another instance publishes for slot 'slot' now"
            commit(leader, case, range(1, 3), end=300)
    assert numbers(case.arrived()) == [0, 1, 2]


def test_a_transaction_that_an_earlier_sink_left_open_does_not_stop_the_fence(case: PostgresCase) -> None:
    """It was frozen after it wrote its position, and before it committed."""
    with closing(fenced(case)) as sink:
        commit(sink, case, range(1), end=100)
    with psycopg.connect(case.database.dsn) as frozen:
        frozen.execute(
            "UPDATE walrelay_positions SET backend_pid = pg_backend_pid(), backend_start ="
            " (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())"
        )
        frozen.commit()
        frozen.execute("UPDATE walrelay_positions SET epoch = epoch, position = NULL, slot_name = slot_name")
        with closing(fenced(case)) as leader:
            assert leader.last() == position(100)
        with pytest.raises(psycopg.OperationalError):
            frozen.execute("SELECT 1")
        frozen.close()


def test_a_position_without_messages_is_kept(case: PostgresCase) -> None:
    with closing(fenced(case)) as sink:
        commit(sink, case, range(3), end=100)
        sink.mark(LSN(150))
        assert sink.keep(position(200)._replace(xmin=7)) == LSN(200)
    with closing(fenced(case)) as successor:
        assert successor.last() == position(200)._replace(xmin=7)


def test_a_relay_at_least_once_keeps_its_position_there(case: PostgresCase) -> None:
    keeper = PostgresPositionKeeper(case.settings(), SYSTEM, "slot")
    assert keeper.last() is None
    assert keeper.keep(position(300)) == LSN(300)
    successor = PostgresPositionKeeper(case.settings(), SYSTEM, "slot")
    assert successor.last() == position(300)
    with pytest.raises(Superseded):
        wait_until(lambda: keeper.keep(position(400)) == LSN(400), 20, "the end of the earlier one")


def test_the_table_of_positions_is_made_where_it_is_missing(case: PostgresCase) -> None:
    execute(case.database, "DROP TABLE walrelay_positions")
    with closing(fenced(case)) as sink:
        assert sink.last() is None


@pytest.mark.parametrize(
    ("statement", "verdict", "detail"),
    [
        ("SELECT 1", "ok", "public.walrelay_events is there"),
        ("DROP TABLE walrelay_events", "problem", "there is no table public.walrelay_events"),
        ("ALTER TABLE walrelay_events DROP key", "problem", "public.walrelay_events has no column 'key'"),
        ("REVOKE INSERT ON walrelay_events FROM writer", "problem", "may not insert into public.walrelay_events"),
        ("ALTER TABLE walrelay_events ENABLE ROW LEVEL SECURITY", "problem", "row security for the role of sink.dsn"),
        (
            "ALTER TABLE walrelay_events RENAME TO base; CREATE VIEW walrelay_events AS SELECT * FROM base",
            "problem",
            "public.walrelay_events is no table: it takes no COPY",
        ),
    ],
)
def test_the_doctor_says_what_is_wrong_with_the_table(
    case: PostgresCase, writer: str, statement: str, verdict: str, detail: str
) -> None:
    execute(case.database, statement)
    first, *_, last = plugin.examine(case.settings(dsn=writer), ["events"])
    assert (first.verdict, first.detail[:24]) == ("ok", "connected to PostgreSQL ")
    assert last.verdict == verdict
    assert detail in last.detail
    assert bool(last.fix) == (verdict == "problem")


def test_the_doctor_says_that_the_database_is_away_and_not_its_password(case: PostgresCase) -> None:
    dsn = "postgresql://relay:secret@127.0.0.1:1/nowhere"
    (finding,) = plugin.examine(case.settings(dsn=dsn), ["events"])
    assert (finding.verdict, finding.fix) == ("problem", "Correct sink.dsn, or start the server.")
    assert "127.0.0.1:1/nowhere cannot be used" in finding.detail
    assert "secret" not in str(finding)
