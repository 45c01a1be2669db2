"""The table of dead letters on a real PostgreSQL: written once, found by filters, replayed in order, discarded."""

import json
import random
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.cli import main
from walrelay.ddl import script
from walrelay.dead_letter import DeadLetter, Origin
from walrelay.dead_letters import DeadLetterFilter, DeadLetterTable, DeadLetterTableWriter
from walrelay.dead_letters.counts import dead_letter_counts, waiting
from walrelay.dead_letters.identity import RecordKey
from walrelay.dead_letters.of_records import dead_letters_of
from walrelay.dead_letters.replay import DeadLetterReplay
from walrelay.dead_letters.republishing import Republishing
from walrelay.dead_letters.store import skips
from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message, OutboxRecord, Receipt, Refusal
from walrelay.postgres.catalog import Catalog
from walrelay.route import Router

SLOT = "walrelay"


class Broker:
    """A sink that refuses some values, and says nothing of another; outlives its connections."""

    def __init__(self, *refused: bytes, ends: bool = False, silent: bytes = b"") -> None:
        self.refused, self.ends, self.silent = refused, ends, silent
        self.taken: list[Message] = []
        self._heard: list[Receipt | Refusal] = []

    def publish(self, message: Message, ticket: int) -> bool:
        if self._heard and self.ends:
            return False
        if message.value in self.refused:
            self._heard.append(Refusal(ticket, message, "too large", "hint", "too_large", "message", self.ends))
        elif message.value != self.silent:
            self.taken.append(message)
            self._heard.append(Receipt(ticket, 1))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        heard, self._heard = self._heard, []
        return heard

    def flush(self, timeout: float) -> None:
        pass

    def close(self) -> None:
        pass

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return ""


def letter(
    number: int, status: str = "waiting", key: bytes = b"k", topic: str = "t", error: str = "poison"
) -> DeadLetter:
    record = OutboxRecord(LSN(100), number, 0, f"e{number}", "thing", "k", None, b"%d" % number, None, None, None, None)
    message = Message(topic, key, record.payload, [("id", record.id.encode()), ("position", b"0/64:%d" % number)], 5)
    origin = Origin(record.commit_lsn, number, 0, record.id)
    return DeadLetter(origin, status, error, "why", topic, key, record._replace(topic=topic), message)


def statuses(database: Database) -> list[tuple[object, ...]]:
    return database.execute("SELECT record_id, status, attempts FROM walrelay.dead_letters ORDER BY ordinal")


def replayed(table: DeadLetterTable, broker: Broker, *ids: int) -> list[str]:
    replay = DeadLetterReplay(table, Republishing(Router("t").route), lambda: broker, "somebody")
    listed = list(ids) or table.find(DeadLetterFilter(statuses=("waiting", "blocked")))
    return [each.outcome for each in replay.replay([*listed, *table.blocked_behind(listed)], ("waiting", "blocked"))]


def test_a_letter_that_is_written_again_after_a_crash_counts_its_attempts_and_is_otherwise_as_it_was(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))
    letters.write(letter(1)._replace(reason="another", attempts=2))
    assert statuses(database) == [("e1", "waiting", 3)]
    (kept,) = table.letters(table.find(DeadLetterFilter()))
    assert kept.letter == letter(1)._replace(attempts=3)
    assert kept.last_at > kept.first_at
    assert letters.settled(LSN(100)).keys() == {RecordKey(LSN(100), 1, "e1")}
    assert letters.settled(LSN(101)) == {}


def test_what_no_text_column_takes_is_kept_all_the_same(letters: DeadLetterTableWriter, table: DeadLetterTable) -> None:
    """NUL, and bytes that are not UTF-8."""
    odd = letter(1, topic="a\0b")
    assert odd.record is not None
    odd = odd._replace(record=odd.record._replace(id="\udcff", payload=b"\xff\0"), reason="a\0b\udcff")
    letters.write(odd)
    (kept,) = table.letters(table.find(DeadLetterFilter()))
    assert kept.letter.record == odd.record
    assert kept.letter.message == odd.message


@pytest.mark.parametrize("wide", ["topic", "key", "id"])
def test_a_letter_of_any_width_is_stored_found_replayed_and_blocks_its_key(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable, settings: Path, wide: str
) -> None:
    """As random text, which PostgreSQL cannot make smaller."""
    assert run(settings, "init").exit_code == 0
    text = "".join(random.Random(7).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=20_000))

    def of(number: int, status: str) -> DeadLetter:
        key, topic = text.encode() if wide == "key" else b"k", text if wide == "topic" else "t"
        made = letter(number, status, key, topic)
        if wide != "id" or made.record is None:
            return made
        id_ = f"{text}{number}"
        return made._replace(origin=made.origin._replace(record_id=id_), record=made.record._replace(id=id_))

    first, second = of(1, "waiting"), of(2, "blocked")
    for _ in range(2):
        letters.write(first)
    assert letters.write_blocked(second)
    assert (first.topic, first.key) in letters.blocked_keys()
    assert len(letters.settled(LSN(100))) == 2
    found = table.find(DeadLetterFilter(id=first.origin.record_id))
    (kept,) = table.letters(found)
    assert (kept.letter.record, kept.letter.message, kept.letter.attempts) == (first.record, first.message, 2)
    assert [*dead_letters_of(table.catalog, SLOT, [first.origin.record_id])] == [first.origin.record_id]
    assert dead_letter_counts(table, SLOT).open == 2
    replay = DeadLetterReplay(table, Republishing(Router("t").route), Broker, "somebody")
    assert [each.outcome for each in replay.replay(*table.find_to_replay(DeadLetterFilter()))] == ["replayed"] * 2


def test_init_replaces_an_index_that_takes_no_long_key_and_the_relay_says_so_before(
    database: Database, letters: DeadLetterTableWriter, settings: Path
) -> None:
    database.execute(
        "CREATE INDEX dead_letters_open ON walrelay.dead_letters (slot_name, topic, key)"
        " WHERE status IN ('waiting', 'blocked')"
    )
    wide = letter(1, key=random.Random(7).randbytes(6_000))
    with pytest.raises(Fatal, match="dead_letters_open") as caught:
        letters.write(wide)
    assert "`walrelay init`" in caught.value.hint
    assert "removed   index walrelay.dead_letters_open" in run(settings, "init").stdout
    letters.write(wide)
    assert "dead_letters_open" not in run(settings, "init").stdout


def test_a_key_waits_behind_an_open_letter_that_comes_before_and_not_behind_any_other(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(3))
    blocked = letter(5, status="blocked")
    assert not letters.write_blocked(letter(2, status="blocked"))
    assert not letters.write_blocked(letter(5, status="blocked", key=b"other"))
    assert not letters.write_blocked(letter(5, status="blocked", topic="other"))
    assert letters.write_blocked(blocked)
    assert letters.blocked_keys() == {("t", b"k"): letter(3).origin}
    assert letters.first_open("t", b"k") == letter(3).origin
    table.discard(table.find(DeadLetterFilter(id="e3")), "somebody", "a test")
    assert letters.first_open("t", b"k") == blocked.origin, "what was blocked is still to be replayed or discarded"
    table.discard(table.find(DeadLetterFilter(id="e5")), "somebody", "a test")
    assert not letters.write_blocked(letter(6, status="blocked"))
    assert [row[:2] for row in statuses(database)] == [("e3", "discarded"), ("e5", "discarded")]


def test_letters_are_found_by_every_filter(letters: DeadLetterTableWriter, table: DeadLetterTable) -> None:
    letters.write(letter(1, topic="orders.new", error="too_large"))
    letters.write(letter(2, topic="orders_new", key=b"x"))
    letters.write(letter(3, status="skipped"))
    every = table.find(DeadLetterFilter())
    now = datetime.now(UTC)

    def found(**wanted: Any) -> list[int]:
        return [every.index(id_) + 1 for id_ in table.find(DeadLetterFilter(**wanted))]

    assert found(topic="orders*") == [1, 2]
    assert found(topic="orders_new") == [2], "_ is no pattern"
    assert found(error="too_large") == [1]
    assert found(statuses=["skipped"]) == [3]
    assert found(key=b"x") == [2]
    assert found(id="e3") == found(id=str(every[2])) == [3]
    assert found(limit=2) == [1, 2]
    assert found(since=now - timedelta(hours=1)) == [1, 2, 3]
    assert found(until=now - timedelta(hours=1)) == []


def test_replay_routes_anew_keeps_id_and_position_and_closes_after_the_receipt(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    unrouted = letter(1)._replace(topic=None, message=None, error="unroutable")
    letters.write(unrouted)
    broker = Broker()
    assert replayed(table, broker) == ["replayed"]
    (message,) = broker.taken
    assert (message.topic, message.value) == ("t", b"1")
    assert message.headers == [("id", b"e1"), ("position", b"0/64:1"), ("replayed", b"true")]
    assert statuses(database) == [("e1", "replayed", 1)]
    assert replayed(table, broker) == []
    (kept,) = table.letters(table.find(DeadLetterFilter()))
    assert (kept.closed_by, kept.closed_at is not None) == ("somebody", True)


@pytest.mark.parametrize("ends", [False, True])
def test_a_letter_that_is_refused_again_waits_on_and_everything_of_its_key_behind_it(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable, ends: bool
) -> None:
    letters.write(letter(1))
    for number in (2, 3):
        letters.write_blocked(letter(number, status="blocked"))
    letters.write(letter(4, key=b"other"))
    broker = Broker(b"1", ends=ends)
    assert sorted(replayed(table, broker)) == ["left", "left", "refused", "replayed"]
    assert [message.value for message in broker.taken] == [b"4"]
    assert [row[:2] for row in statuses(database)] == [
        ("e1", "waiting"),
        ("e2", "blocked"),
        ("e3", "blocked"),
        ("e4", "replayed"),
    ]
    assert replayed(table, Broker(), *table.find(DeadLetterFilter(id="e1"))) == ["replayed"] * 3
    assert statuses(database)[0] == ("e1", "replayed", 2)


def test_letters_that_were_acknowledged_are_closed_although_another_sink_says_nothing(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))
    letters.write(letter(2, topic="u"))
    silent = DeadLetterReplay(
        table, Republishing(Router("t").route), lambda: Broker(silent=b"1"), "somebody", patience=0.2
    )
    with pytest.raises(Fatal, match=r"no receipt for 0\.2 s") as caught:
        list(silent.replay(table.find(DeadLetterFilter()), ["waiting"]))
    assert "What has no receipt stays a dead letter" in caught.value.hint
    assert [row[:2] for row in statuses(database)] == [("e1", "waiting"), ("e2", "replayed")]
    broker = Broker()
    assert replayed(table, broker) == ["replayed"]
    assert [message.value for message in broker.taken] == [b"1"]


def test_a_blocked_letter_is_not_replayed_before_the_one_it_waits_for(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))
    letters.write_blocked(letter(2, status="blocked"))
    assert replayed(table, Broker(), *table.find(DeadLetterFilter(id="e2"))) == ["left"]
    assert [row[:2] for row in statuses(database)] == [("e1", "waiting"), ("e2", "blocked")]


def test_the_relay_does_not_pass_a_key_whose_letters_are_being_replayed(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    """It asks whether the key still waits, and gets the answer only when the replay is over."""
    letters.write(letter(1))
    keys = table.keys(table.find(DeadLetterFilter()))
    passed = threading.Event()

    def relay() -> None:
        with Catalog(database.dsn) as own:
            if not DeadLetterTableWriter(own, SLOT, lambda topic: "kafka").write_blocked(letter(2, status="blocked")):
                passed.set()

    with table.locked(keys, ["waiting"]) as locked:
        thread = threading.Thread(target=relay)
        thread.start()
        wait_until(
            lambda: database.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
            5,
            "the relay to wait for the key",
        )
        table.replayed([kept.id for kept in locked], "somebody")
        assert not passed.is_set()
    thread.join(5)
    assert passed.is_set(), "nothing is open any more, so it may publish"


@pytest.mark.parametrize("key", [b"k", None], ids=["a key", "no key"])
def test_who_replays_letters_that_another_replay_has_waits_for_it_or_says_who_it_is(
    database: Database, catalog: Catalog, letters: DeadLetterTableWriter, table: DeadLetterTable, key: bytes | None
) -> None:
    letters.write(letter(1)._replace(key=key))
    ids = table.find(DeadLetterFilter())
    told: list[str] = []

    def second() -> None:
        with Catalog(database.dsn) as own:
            told.extend(replayed(DeadLetterTable(own, SLOT), Broker(), *ids))

    pid = catalog.value("SELECT pg_backend_pid()")
    with table.locked(table.keys(ids), ["waiting"]) as locked, Catalog(database.dsn) as impatient:
        with pytest.raises(Retryable, match=f"PID {pid} .*walrelay control.* wait for it, or end it"):
            replayed(DeadLetterTable(impatient, SLOT, patience=1), Broker(), *ids)
        thread = threading.Thread(target=second)
        thread.start()
        longer = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        longer += " AND now() - query_start > interval '5.5 s'"  # than statements may take elsewhere
        wait_until(lambda: database.execute(longer), 30, "the second to wait for the first")
        table.replayed([kept.id for kept in locked], "somebody")
    thread.join(30)
    assert told == ["left"]


def test_a_replay_that_dies_leaves_its_letters_open(
    database: Database, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    letters.write(letter(1))

    def dies() -> None:
        with table.locked(table.keys(table.find(DeadLetterFilter())), ["waiting"]) as locked:
            table.replayed([kept.id for kept in locked], "somebody")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        dies()
    assert statuses(database) == [("e1", "waiting", 1)]


def test_letters_of_another_slot_are_not_seen(catalog: Catalog, letters: DeadLetterTableWriter) -> None:
    letters.write(letter(1))
    assert DeadLetterTable(catalog, "another").find(DeadLetterFilter()) == []
    assert (waiting(catalog, SLOT), waiting(catalog, "another")) == (1, 0)


UNREADABLE = DeadLetter(Origin(LSN(100), 2, 0, ""), "skipped", "undecodable", "why", raw=b"\0", attempts=0)


def test_skipped_positions_are_those_of_what_cannot_be_read(catalog: Catalog, letters: DeadLetterTableWriter) -> None:
    letters.skip(UNREADABLE, "somebody")
    letters.write(letter(3, status="skipped"))
    assert skips(catalog, SLOT) == {(LSN(100), 2)}
    assert letters.settled(LSN(100)).keys() == {RecordKey(LSN(100), 3, "e3")}


def test_an_operator_skips_what_an_earlier_run_had_set_aside(
    catalog: Catalog, letters: DeadLetterTableWriter, table: DeadLetterTable
) -> None:
    """A crash before the position was confirmed, and then another policy: the relay stops where there is a letter."""
    letters.write(UNREADABLE._replace(status="waiting", attempts=1))
    assert skips(catalog, SLOT) == frozenset()
    letters.skip(UNREADABLE._replace(reason="why. Skipped because: a test"), "somebody")
    assert skips(catalog, SLOT) == {(LSN(100), 2)}
    (kept,) = table.letters(table.find(DeadLetterFilter()))
    assert (kept.letter.status, kept.letter.reason, kept.closed_by) == (
        "skipped",
        "why. Skipped because: a test",
        "somebody",
    )
    assert kept.closed_at


def test_a_database_without_the_table_is_told_what_makes_it(database: Database) -> None:
    with Catalog(database.dsn) as catalog:
        assert waiting(catalog, SLOT) is None
        assert skips(catalog, SLOT) == frozenset()
        with pytest.raises(Fatal, match=r"no table walrelay\.dead_letters") as caught:
            DeadLetterTableWriter(catalog, SLOT, lambda topic: "kafka")
    assert "walrelay init" in caught.value.hint


def test_a_letter_is_durable_also_where_the_database_does_not_ask_for_that(database: Database) -> None:
    database.execute(script("schema"))
    database.execute(script("dead_letters"))
    database.server.execute(f'ALTER DATABASE "{database.name}" SET synchronous_commit = off')
    with Catalog(database.dsn) as catalog:
        DeadLetterTableWriter(catalog, SLOT, lambda topic: "kafka")
        assert catalog.value("SHOW synchronous_commit") == "on"


@pytest.fixture
def settings(database: Database, catalog: Catalog, tmp_path: Path) -> Path:
    path = tmp_path / "walrelay.yaml"
    path.write_text(json.dumps({"source": {"dsn": database.dsn}, "sink": {"kind": "memory"}}))
    return path


def run(settings: Path, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, [*arguments, "--config", str(settings)], input=answer)


def test_the_commands_list_show_export_and_discard(
    database: Database, letters: DeadLetterTableWriter, settings: Path
) -> None:
    letters.write(letter(1, error="too_large"))
    letters.write(letter(2)._replace(message=Message("t", b"\xff", b"\xff", [], 0)))
    listed = run(settings, "dlq", "list")
    assert listed.exit_code == 0
    head, first, more, second, _ = listed.stdout.splitlines()
    assert [line.split()[1:4] for line in (head, first, second)] == [
        ["position", "status", "error"],
        ["0/64:1", "waiting", "too_large"],
        ["0/64:2", "waiting", "poison"],
    ]
    assert more.startswith("         e1 for topic t, key ")
    assert max(map(len, (head, first, second))) <= 80
    (summary,) = map(json.loads, run(settings, "dlq", "list", "--json", "--error", "poison").stdout.splitlines())
    assert (summary["id"], summary["position"], "message" in summary) == ("e2", "0/64:2", False)
    shown = json.loads(run(settings, "dlq", "show", "e1").stdout)
    assert (shown["message"]["value"], shown["record"]["id"]) == ("1", "e1")
    assert "T" in shown["record"]["committed_at"]
    assert run(settings, "dlq", "show", "e2", "--value").stdout_bytes == b"\xff\n"
    assert "walrelay dlq replay --id 1" in run(settings, "dlq", "show", "e1").stderr
    _, exported = map(json.loads, run(settings, "dlq", "export").stdout.splitlines())
    assert exported["message"]["value"] == {"base64": "/w=="}
    assert run(settings, "dlq", "show", "nothing").exit_code == 1
    asked = run(settings, "dlq", "discard", "--id", "e1", "--reason", "a test", answer="n\n")
    assert (asked.exit_code, "Discard 1 dead letter?" in asked.stderr) == (1, True)
    assert run(settings, "dlq", "discard", "--id", "e1", "--reason", "a test", answer="y\n").exit_code == 0
    assert run(settings, "dlq", "discard", "--reason", "a test", "--dry-run").stdout == (
        "1 open dead letter would be discarded\n"
    )
    assert [row[:2] for row in statuses(database)] == [("e1", "discarded"), ("e2", "waiting")]
    assert run(settings, "dlq", "discard", "--yes").exit_code == 2, "a reason is wanted"
    gone = run(settings, "dlq", "discard", "--id", "e1", "--reason", "again", "--yes")
    assert (gone.exit_code, "there is no open dead letter 'e1'" in gone.stderr) == (1, True)
    assert "discarded" not in run(settings, "dlq", "list").stdout
    assert "discarded" in run(settings, "dlq", "list", "--all").stdout


def test_the_command_replays_and_says_what_it_would_replay(
    database: Database, letters: DeadLetterTableWriter, settings: Path
) -> None:
    letters.write(letter(1))
    letters.write_blocked(letter(2, status="blocked"))
    dry = run(settings, "dlq", "replay", "--dry-run", "--id", "e1")
    assert [line.split()[1:3] for line in dry.stdout.splitlines()] == [["0/64:1", "waiting"], ["0/64:2", "blocked"]]
    assert [status for _, status, _ in statuses(database)] == ["waiting", "blocked"]
    done = run(settings, "dlq", "replay", "--id", "e1")
    assert (done.exit_code, done.stdout) == (0, "2 replayed, 0 refused again, 0 left as they are\n")
    assert [status for _, status, _ in statuses(database)] == ["replayed", "replayed"]


def test_a_role_without_rights_on_the_table_is_told_the_grant(database: Database, catalog: Catalog) -> None:
    role = f"{database.name}_reader"
    database.execute(f'CREATE ROLE "{role}" LOGIN')
    try:
        with Catalog(psycopg.conninfo.make_conninfo(database.dsn, user=role)) as own, pytest.raises(Fatal) as caught:
            DeadLetterTable(own, SLOT).find(DeadLetterFilter())
        assert "GRANT" in caught.value.hint
    finally:
        database.execute(f'DROP ROLE "{role}"')
