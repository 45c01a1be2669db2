"""A copy of a database (CREATE DATABASE ... TEMPLATE) has the tables of the original's relay, and none of its slots."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from psycopg import sql

from tests.servers.database import Database
from walrelay.cli import main

_SLOTS = "SELECT slot_name, database, confirmed_flush_lsn FROM pg_replication_slots WHERE database = %s"


class Copy:
    """The copy, settings of the original's relay whose DSN leads to it, and settings of a relay of its own."""

    def __init__(self, directory: Path, original: Database, copy: Database) -> None:
        self.original, self.database, self._directory = original, copy, directory
        self.slot = f"slot_{original.name}"
        assert self.run("init", dsn=original.dsn).exit_code == 0
        original.execute("SELECT walrelay.emit('order', '1', 'waits in the original')")
        original.execute("INSERT INTO walrelay.relays (slot_name, name) VALUES (%s, 'orders')", [self.slot])
        clone = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        names = map(sql.Identifier, (copy.name, original.name))
        original.server.execute(clone.format(*names).as_string())

    def run(self, *words: str, dsn: str = "", slot: str = "") -> Result:
        path = self._directory / "walrelay.yaml"
        source = {"dsn": dsn or self.database.dsn, "slot": slot or self.slot}
        path.write_text(yaml.safe_dump({"source": source, "sink": {"kind": "memory"}}))
        return CliRunner().invoke(main, [*words, "-c", str(path)])

    def slots(self) -> list[tuple[object, ...]]:
        return self.original.server.execute(_SLOTS, [self.original.name])


@pytest.fixture
def copy(tmp_path: Path, database: Database) -> Iterator[Copy]:
    other = Database(database.server, f"{database.name}_copy")
    try:
        yield Copy(tmp_path, database, other)
    finally:
        other.drop()


@pytest.mark.parametrize(
    "words",
    [
        ["drop", "--yes"],
        ["recover", "--replace", "--yes"],
        ["recover", "--replace", "--all", "--dry-run"],
        ["init"],
        ["init", "--backfill"],
        ["run"],
        ["status"],
        ["pause"],
        ["pause", "--limit", "1MB", "--then", "drop-slot"],
        ["resume"],
        ["restart"],
        ["drain"],
        ["cleanup", "--older-than", "1s"],
        ["replay", "--all", "--yes"],
        ["skip", "--position", "0/1:0", "--yes"],
        ["dlq", "list"],
        ["dlq", "replay"],
        ["dlq", "discard", "--reason", "none", "--yes"],
        ["dlq", "show", "1"],
        ["dlq", "export"],
        ["dlq", "edit", "1", "--take-back", "--yes"],
        ["events"],
        ["find", "1"],
    ],
    ids=" ".join,
)
def test_a_command_names_the_other_database_and_leaves_its_slot(copy: Copy, words: list[str]) -> None:
    before = copy.slots()
    result = copy.run(*words)
    assert result.exit_code == 1, result.output
    said = f"slot {copy.slot} belongs to database {copy.original.name}, the DSN leads to {copy.database.name}"
    assert said in result.output
    assert copy.slots() == before


def test_doctor_names_the_database_of_the_slot(copy: Copy) -> None:
    said = f"{copy.slot} belongs to database {copy.original.name}, the DSN leads to {copy.database.name}"
    assert said in copy.run("doctor").output


def test_a_relay_of_the_copy_has_nothing_to_do_with_records_that_came_along(copy: Copy) -> None:
    before, own = copy.slots(), f"own_{copy.database.name}"
    try:
        assert copy.run("init", slot=own).exit_code == 0
        shown = [json.loads(line) for line in copy.run("relays", "--json", slot=own).stdout.splitlines()]
        assert [each["slot"] for each in shown] == [own]
        copy.database.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [own])
        done = copy.run("cleanup", "--older-than", "1h", "--dry-run", slot=own)
        assert done.exit_code == 0, done.output
        assert copy.slots() == before
    finally:
        copy.database.drop_slots()
