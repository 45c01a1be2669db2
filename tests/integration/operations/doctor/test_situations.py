"""`doctor`, `status`, `tail`, `run` and `init` agree about each situation, and with what becomes of an event in it."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.integration.operations.doctor.commands import Commands
from tests.integration.operations.doctor.patient import as_role
from tests.integration.operations.doctor.situations import SITUATIONS, Situation
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer, Setting

SERVER: dict[str, Setting] = {"max_prepared_transactions": 5, "max_slot_wal_keep_size": "100GB"}
CASES = [
    pytest.param(version, each, id=f"{version}-{group}-{each.name}".replace(" ", "_"))
    for group, each in SITUATIONS
    for version, suits in {
        "shared": not each.only_newest,
        "newest": each.newest or each.only_newest,
        "oldest": each.oldest,
    }.items()
    if suits
]
OLDEST = 14


def test_the_situations_are_many_and_each_has_a_name_of_its_own() -> None:
    names = [(group, each.name) for group, each in SITUATIONS]
    assert len(names) >= 90
    assert len(names) == len(set(names))


@pytest.fixture(scope="session")
def servers(machine: Machine) -> Iterator[Callable[[str], PostgresServer]]:
    """By version: the one that the tests share elsewhere, the newest, and the oldest."""
    with ExitStack() as stack:
        running: dict[str, PostgresServer] = {}

        def server(version: str) -> PostgresServer:
            if version not in running:
                if version == "newest":
                    programs = choose.found(lambda: choose.newest_postgres_programs(machine))
                else:
                    major = OLDEST if version == "oldest" else None
                    programs = choose.found(lambda: choose.postgres_programs(machine, major))
                running[version] = stack.enter_context(PostgresServer(programs, SERVER))
            return running[version]

        yield server


class Case(Commands):
    """A situation on a server, and walrelay's commands for it."""

    def __init__(self, situation: Situation, database: Database, directory: Path, capture: Any) -> None:
        self.situation, self.database = situation, database
        source = {"dsn": database.dsn, "slot": database.name, **situation.settings.get("source", {})}
        super().__init__({**situation.settings, "source": source, "sink": {"kind": "memory"}}, directory, capture)
        if not situation.by_hand:
            before = self.settings
            self.settings = {**before, "source": {**source, "slot": database.name, "publication": "walrelay"}}
            self.settings.pop("outbox", None)
            made = self.walrelay("init")
            assert made.code == 0, made.err
            self.settings = before
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            for statement in _statements(situation.sql.replace("{slot}", database.name)):
                connection.execute(statement.encode())
        if situation.role is not None:
            name = f"role_{database.name}"
            database.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}' {situation.role}")
            database.execute(f"GRANT USAGE ON SCHEMA walrelay TO {name}")
            database.execute(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA walrelay TO {name}")
            source["dsn"] = as_role(database.dsn, name)

    def write(self) -> None:
        if self.situation.event:
            self.database.execute(self.situation.event)


@pytest.mark.parametrize(("version", "situation"), CASES)
def test_all_commands_agree(
    servers: Callable[[str], PostgresServer],
    version: str,
    situation: Situation,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = servers(version)
    database = _database(server, situation.encoding)
    try:
        _agree(Case(situation, database, tmp_path, capfd))
    finally:
        database.drop()
        server.execute(
            f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{database.name}'"
        )
        for role in (f"role_{database.name}", f"{database.name}_owner"):
            server.execute(f"DROP ROLE IF EXISTS {role}")


def _agree(case: Case) -> None:
    situation = case.situation
    case.write()
    complaints = _complaints(case)
    assert (not complaints) == situation.ready, f"the doctor: {complaints}"
    assert situation.says in " ".join(f"{each['detail']} {each['fix']}" for each in complaints)

    status = case.walrelay("status", "--json")
    shown = json.loads(status.out)["problems"] if status.code == 0 else [status.err]
    assert (not shown) == situation.ready, f"status: {shown}"

    tailed = case.walrelay("tail")
    assert (tailed.code == 0 and not tailed.err) == situation.ready, f"tail: {tailed}"
    if situation.ready:
        assert len(tailed.out.splitlines()) == 1

    goes_on = situation.ready or situation.told
    came, why = case.relays(event=bool(situation.event) or not goes_on)
    expected = "relayed" if goes_on else "waits" if situation.waits else "refused"
    assert came == expected, f"run: {why}"

    made = case.walrelay("init")
    if situation.told:
        assert made.code == 0, f"init: {made}"
        for complaint in _complaints(case):
            case.paste(complaint["fix"], case.database.dsn)
        assert not _complaints(case)
        return
    if situation.ready or situation.cured:
        assert made.code == 0, f"init: {made}"
        case.write()
        assert not _complaints(case), "init said that all is ready"
        assert case.relays(event=bool(situation.event)) == ("relayed", "")
    else:
        assert made.code == 1, f"init: {made}"
        assert "hint: " in made.err
        _cured(case)


def _cured(case: Case) -> None:
    """Fix by fix, and then an event gets through; only which table is meant nobody but the user knows."""
    for _ in range(6):
        if not (complaints := _complaints(case)):
            break
        fix = complaints[0]["fix"]
        if fix.startswith("outbox.table: SCHEMA.TABLE"):
            return
        case.paste(fix, case.database.dsn)
    else:
        raise AssertionError(f"it is not cured by what the doctor says: {complaints}")
    case.write()
    came, why = case.relays(event=bool(case.situation.event))
    if skip := re.search(r"`walrelay (skip --position \S+)`", why):  # the event from before stays as it was written
        for command in ("init", f"{skip[1]} --yes"):  # it is kept in a table that init makes
            told = case.walrelay(*command.split())
            assert told.code == 0, told
        came, why = case.relays(event=True)
    assert came == "relayed" or not case.situation.by_fix, why


def _complaints(case: Case) -> list[dict[str, str]]:
    doctor = case.walrelay("doctor", "--json")
    told = json.loads(doctor.out)
    assert told["ready"] == (doctor.code == 0)
    return [each for each in told["findings"] if each["verdict"] == "problem"]


def _database(server: PostgresServer, encoding: str) -> Database:
    if encoding == "UTF8":
        return server.create_database()
    name = f"test_{encoding.lower()}"
    server.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    return Database(server, name)


def _statements(sql: str) -> list[str]:
    return [sql] if "$$" in sql else [each for each in sql.split(";") if each.strip()]
