"""Acts that cannot be undone: the world changes between the question and the act (docs/irreversible.md)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.integration.dead_letters.test_dead_letters import letter
from tests.servers.database import Database, Postgres
from tests.servers.waiting import wait_until
from walrelay.cli import main
from walrelay.cli import migrate as migrating
from walrelay.dead_letters import DeadLetterFilter, DeadLetterTable, DeadLetterTableWriter
from walrelay.operations import backfill, drop
from walrelay.postgres.catalog import Catalog


class Relay:
    """A relay with a slot, and another database on its server."""

    def __init__(self, directory: Path, database: Database, other: Database) -> None:
        self.database, self.other, self.slot = database, other, f"slot_{database.name}"
        self.read_up_to = ""
        self._path, self.published = directory / "walrelay.yaml", directory / "published.jsonl"
        source = {"dsn": database.dsn, "slot": self.slot}
        sink = {"kind": "file", "path": str(self.published)}
        self._path.write_text(yaml.safe_dump({"source": source, "sink": sink}))
        assert self.run("init").exit_code == 0

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*words, "-c", str(self._path)])

    def refuse(self) -> None:
        """A message of it becomes a dead letter."""
        with Catalog(self.database.dsn) as catalog:
            DeadLetterTableWriter(catalog, self.slot, lambda topic: "").write(letter(1))

    def letter(self) -> tuple[Any, ...]:
        ((status, by),) = self.database.execute("SELECT status, closed_by FROM walrelay.dead_letters")
        return status, by

    def lines(self) -> list[str]:
        """The messages that were published."""
        return [line for file in self.published.parent.glob("published*") for line in file.read_text().splitlines()]

    def position(self) -> str:
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        ((position,),) = self.database.execute(query, [self.slot])
        return str(position)

    def is_read(self) -> None:
        """Another reader of the slot confirms both events, and ends."""
        query = "SELECT end_lsn::text FROM pg_replication_slot_advance(%s, pg_current_wal_lsn())"
        ((self.read_up_to,),) = self.database.execute(query, [self.slot])

    def goes_elsewhere(self) -> None:
        """The slot's name is that of a slot of the other database now."""
        self.database.drop_slots()
        self.other.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self.slot])


@pytest.fixture
def relay(tmp_path: Path, database: Database, postgres: Postgres) -> Iterator[Relay]:
    other = postgres.create_database()
    try:
        yield Relay(tmp_path, database, other)
    finally:
        other.drop()


def answered(monkeypatch: pytest.MonkeyPatch, room: Any, question: str, change: Callable[[], object]) -> None:
    """The world changes as soon as the question has its answer."""
    asked: Callable[..., Any] = getattr(room, question)

    def then(*arguments: Any) -> Any:
        answer = asked(*arguments)
        change()
        return answer

    monkeypatch.setattr(room, question, then)


@pytest.mark.parametrize(
    ("room", "question", "words"),
    [
        (drop, "refuse_missing_rights", ["drop", "--yes"]),
        (backfill, "note_before_backfill", ["recover", "--replace", "--all", "--yes"]),
    ],
    ids=["drop", "recover"],
)
def test_a_slot_that_became_another_databases_since_the_question_is_left(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, room: Any, question: str, words: list[str]
) -> None:
    answered(monkeypatch, room, question, relay.goes_elsewhere)
    result = relay.run(*words)
    assert result.exit_code == 1, result.output
    assert f"belongs to database {relay.other.name}" in result.output
    assert relay.database.server.slots(relay.other.name) == {relay.slot}
    assert relay.database.execute("SELECT count(*) FROM pg_publication") == [(1,)]


BY_ANOTHER = {
    "discarded": ["discard", "--reason", "a test", "--yes"],
    "replayed": ["replay"],
}


@pytest.mark.parametrize("meanwhile", BY_ANOTHER)
def test_a_dead_letter_that_was_closed_since_the_question_is_not_replayed(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    relay.refuse()
    closed = list[Result | None]()

    def close() -> None:
        if not closed:
            closed.append(None)  # the command that closes it asks the same question
            closed[0] = relay.run("dlq", *BY_ANOTHER[meanwhile])

    answered(monkeypatch, DeadLetterTable, "find_to_replay", close)
    result = relay.run("dlq", "replay")
    assert closed[0] is not None
    assert f"1 {meanwhile}" in closed[0].stdout
    assert result.stdout == "0 replayed, 0 refused again, 1 left as they are\n"
    assert "it is closed" in result.stderr
    assert relay.letter()[0] == meanwhile
    assert len(relay.lines()) == (1 if meanwhile == "replayed" else 0)


def test_a_dead_letter_that_was_replayed_since_the_question_is_not_discarded(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay.refuse()
    answered(monkeypatch, DeadLetterTable, "find_to_discard", lambda: relay.run("dlq", "replay"))
    result = relay.run("dlq", "discard", "--reason", "a test", "--yes")
    assert (result.exit_code, result.stdout) == (0, "0 discarded\n")
    assert "1 dead letter was closed meanwhile" in result.stderr
    assert relay.letter()[0] == "replayed"


def test_a_dead_letter_that_a_replay_is_publishing_is_not_discarded(relay: Relay) -> None:
    relay.refuse()
    results = list[Result]()
    waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with Catalog(relay.database.dsn) as catalog:
        table = DeadLetterTable(catalog, relay.slot)
        ids = table.find(DeadLetterFilter())
        with table.locked(table.keys(ids), ["waiting"]):
            discard = ["dlq", "discard", "--reason", "a test", "--yes"]
            thread = Thread(target=lambda: results.append(relay.run(*discard)))
            thread.start()
            wait_until(lambda: relay.database.execute(waits), 30, "the discard to wait")
            table.replayed(ids, "another")
        thread.join(30)
    assert results[0].stdout == "0 discarded\n", results[0].output
    assert relay.letter() == ("replayed", "another")


@pytest.fixture
def offset(relay: Relay, tmp_path: Path) -> Path:
    """Debezium's offset behind the first of two events."""
    for number in (1, 2):
        relay.database.execute("SELECT walrelay.emit('order', %s, 'Placed', '{}')", [str(number)])
    ((end,), *_) = relay.database.execute(
        "SELECT (lsn - '0/0')::int8 FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
        " 'publication_names', 'walrelay') WHERE get_byte(data, 0) = ascii('C')",
        [relay.slot],
    )
    file = tmp_path / "offsets.json"
    stored = {"lsn_commit": int(end), "messageType": "COMMIT"}
    file.write_text(json.dumps({"offsets": [{"partition": {"server": "app"}, "offset": stored}]}))
    return file


def test_a_slot_that_was_read_since_the_plan_is_not_moved_to_where_debezium_stopped(
    relay: Relay, offset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = relay.run("migrate", "offset", str(offset), "--dry-run").stdout
    assert "1 of the records that wait in it are published" in planned
    answered(monkeypatch, migrating, "plan", relay.is_read)
    result = relay.run("migrate", "offset", str(offset))
    assert result.exit_code == 1, result.output
    assert "was moved meanwhile" in result.stderr
    assert relay.position() == relay.read_up_to


def test_a_slot_that_became_another_databases_since_the_plan_is_not_moved(
    relay: Relay, offset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(monkeypatch, migrating, "plan", relay.goes_elsewhere)
    result = relay.run("migrate", "offset", str(offset))
    assert result.exit_code == 1, result.output
    assert f"belongs to database {relay.other.name}" in result.stderr
