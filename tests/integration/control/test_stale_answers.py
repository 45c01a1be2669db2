"""Acts that cannot be undone: the world changes between the question and the act (docs/irreversible.md)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.servers.database import Database, Postgres
from walrelay.cli import main
from walrelay.operations import backfill, drop


class Relay:
    """A relay with a slot, and another database on its server."""

    def __init__(self, directory: Path, database: Database, other: Database) -> None:
        self.database, self.other, self.slot = database, other, f"slot_{database.name}"
        self._path = directory / "walrelay.yaml"
        source = {"dsn": database.dsn, "slot": self.slot}
        self._path.write_text(yaml.safe_dump({"source": source, "sink": {"kind": "memory"}}))
        assert self.run("init").exit_code == 0

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*words, "-c", str(self._path)])

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
    asked: Callable[..., Any] = getattr(room, question)

    def then(*arguments: Any) -> Any:
        answer = asked(*arguments)
        relay.goes_elsewhere()
        return answer

    monkeypatch.setattr(room, question, then)
    result = relay.run(*words)
    assert result.exit_code == 1, result.output
    assert f"belongs to database {relay.other.name}" in result.output
    assert relay.database.server.slots(relay.other.name) == {relay.slot}
    assert relay.database.execute("SELECT count(*) FROM pg_publication") == [(1,)]
