"""`walrelay pause`, `resume` and `relays` without a relay, and what the doctor says of a pause."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from psycopg.conninfo import make_conninfo

from tests.conftest import PostgresMaker, StandbyMaker
from tests.servers.database import Database
from walrelay.cli import main


class File:
    """A settings file with one relay, whose slot is there."""

    def __init__(self, directory: Path, database: Database) -> None:
        self.database, self.slot, self.path = database, f"slot_{database.name}", directory / "walrelay.yaml"
        source = {"dsn": database.dsn, "slot": self.slot}
        self.path.write_text(yaml.safe_dump({"relays": {"orders": {"source": source, "sink": {"kind": "memory"}}}}))
        assert self.run("init").exit_code == 0

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*words, "-c", str(self.path)])

    def row(self) -> dict[str, object]:
        ((row,),) = self.database.execute("SELECT to_jsonb(r) FROM walrelay.relays r")
        assert isinstance(row, dict)
        return row


@pytest.fixture
def file(tmp_path: Path, database: Database) -> File:
    return File(tmp_path, database)


def test_a_relay_that_never_ran_is_paused_and_resumed(file: File) -> None:
    terms = ["--reason", "an upgrade", "--for", "2h", "--limit", "10GB", "--then", "drop-slot"]
    result = file.run("pause", "orders", *terms)
    assert result.exit_code == 0, result.output
    for part in ("orders is paused by ", "an upgrade", "no instance leads it", "retained WAL", "more a minute"):
        assert part in result.stdout
    row = file.row()
    assert (row["slot_name"], row["name"], row["paused"]) == (file.slot, "orders", True)
    assert (row["pause_reason"], row["pause_limit"], row["at_pause_limit"]) == ("an upgrade", 10 * 2**30, "drop_slot")
    assert row["paused_at"] is not None
    assert row["paused_until"] is not None
    (shown,) = file.run("relays", "--json").stdout.splitlines()
    assert {"name": "orders", "paused": True, "pause_reason": "an upgrade"}.items() <= json.loads(shown).items()
    table = file.run("relays").stdout
    assert "orders" in table
    assert "an upgrade" in table
    assert "the relay is paused by" in file.run("doctor").stdout

    leaderless = "no instance leads it now: one that starts goes on where it stopped\n"
    assert file.run("resume", file.slot).stdout == f"orders is resumed\n{leaderless}"
    assert file.run("resume").stdout == f"orders was not paused\n{leaderless}"
    row = file.row()
    assert [row[name] for name in ("paused", "pause_reason", "paused_by", "paused_until")] == [False, None, None, None]
    assert "the relay is not paused" in file.run("doctor").stdout


def test_an_update_by_sql_notes_who_and_when_and_notifies(file: File) -> None:
    file.run("pause")
    file.run("resume")
    with file.database.connect() as listening:
        listening.execute("LISTEN walrelay_relays")
        file.database.execute("UPDATE walrelay.relays SET paused = true WHERE name = 'orders'")
        (told,) = [each.payload for each in listening.notifies(timeout=30, stop_after=1)]
    assert told == file.slot
    row = file.row()
    ((user,),) = file.database.execute("SELECT current_user::text")
    assert row["paused_by"] == user
    assert row["paused_at"] is not None


def test_an_operator_needs_no_secret_of_the_broker_to_pause(file: File) -> None:
    written = yaml.safe_load(file.path.read_text())
    written["relays"]["orders"]["sink"] = {"kind": "no-such-sink", "sasl.password": "${NO_SUCH_PASSWORD}"}
    written["relays"]["orders"]["route"] = {"topic": "{no such field}"}
    written["relays"]["other"] = {"source": {"dsn": "${NO_SUCH_DSN}"}, "sink": {"kind": "memory"}}
    file.path.write_text(yaml.safe_dump(written))
    assert file.run("pause").exit_code == 2, "which relay?"
    for words in (["pause", "orders"], ["pause", "orders", "--for", "1h"], ["resume", "orders"]):
        result = file.run(*words)
        assert result.exit_code == 0, result.output
    for command in ("drain", "restart"):
        result = file.run(command, file.slot)
        assert "no instance leads relay 'orders'" in result.stderr, result.output
    result = file.run("relays")
    assert file.slot not in result.stdout
    assert "orders" in result.stdout
    assert "NO_SUCH_DSN is not set" in result.stderr
    assert "NO_SUCH_DSN is not set" in file.run("pause", "other").stderr


def test_a_pause_for_a_while_ends_by_the_clock_of_the_server(file: File) -> None:
    assert file.run("pause", "--for", "90s").exit_code == 0
    ((seconds,),) = file.database.execute(
        "SELECT extract(epoch FROM paused_until - paused_at)::float8 FROM walrelay.relays"
    )
    assert 88 < seconds < 91


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["pause", "nobody"], "There is no relay 'nobody'", 2),
        (["pause", "--for", "1h", "--until", "2026-01-01"], "not both", 2),
        (["pause", "--then", "resume"], "--limit", 2),
        (["pause", "--limit", "much"], "is not a size", 2),
        (["pause", "--for", "soon"], "is not a time", 2),
        (["pause", "--until", "2h"], "--for 2h", 2),
        (["pause", "--until", "2020-01-01T00:00Z"], "is over already", 1),
    ],
)
def test_what_cannot_be_meant_is_refused(file: File, words: list[str], text: str, code: int) -> None:
    result = file.run(*words)
    assert (result.exit_code, text in result.stderr + str(result.exception)) == (code, True), result.output


def test_without_the_table_the_commands_say_what_makes_it(file: File) -> None:
    file.database.execute("DROP TABLE walrelay.relays")
    for command in ("pause", "resume", "relays"):
        result = file.run(command)
        assert result.exit_code == 1
        assert "walrelay init" in result.stderr
    assert "there is no table walrelay.relays" in file.run("doctor").stdout
    assert file.run("init").exit_code == 0
    assert file.run("relays").exit_code == 0


def test_a_slot_that_is_dropped_by_choice_takes_its_pause_along(file: File) -> None:
    file.run("pause")
    assert file.run("drop", "--yes").exit_code == 0
    assert file.database.execute("SELECT FROM walrelay.relays") == []


@pytest.mark.slow
def test_on_a_standby_the_commands_say_so_and_name_the_way_to_the_primary(
    tmp_path: Path, private_postgres: PostgresMaker, standby_of: StandbyMaker
) -> None:
    primary = private_postgres(wal_level="logical")
    file = File(tmp_path, primary.create_database())
    assert file.run("pause").exit_code == 0
    standby = standby_of(primary)
    written = yaml.safe_load(file.path.read_text())
    dsn = make_conninfo(file.database.dsn, port=standby.port)
    written["relays"]["orders"]["source"]["dsn"] = dsn
    file.path.write_text(yaml.safe_dump(written))
    for command in ("pause", "resume", "restart", "drain", "relays"):
        result = file.run(command)
        assert result.exit_code == 1, result.output
        assert "the server is a standby" in result.stderr
        assert "target_session_attrs=primary" in result.stderr
