"""Servers that a relay cannot have, or not yet: every command says the same of them, and what to do."""

import json
from collections.abc import Iterator
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from threading import Thread

import psycopg
import pytest

from tests.conftest import PostgresMaker
from tests.integration.operations.doctor.commands import Commands, RelayState
from tests.integration.operations.doctor.patient import as_role
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.database import Database
from tests.servers.pgbouncer import PgBouncer, pgbouncer_program
from tests.servers.ports import LOOPBACK
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.config import Settings
from walrelay.supervise import Stop

SCRAM = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


@pytest.fixture(scope="module")
def server(machine: Machine) -> Iterator[PostgresServer]:
    """With room for one slot and two walsenders; only postgres needs no password."""
    programs = choose.found(lambda: choose.postgres_programs(machine))
    with PostgresServer(programs, {"max_replication_slots": 1, "max_wal_senders": 2}) as server:
        (server.data / "pg_hba.conf").write_text(SCRAM)
        server.configure()
        yield server


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    fresh = server.create_database()
    yield fresh
    fresh.drop()


@pytest.fixture
def relay(server: PostgresServer, database: Database) -> Iterator[str]:
    """A role that may replicate, and what init makes for it; its name is its password."""
    name = f"relay_{database.name}"
    database.execute(f"CREATE ROLE {name} SUPERUSER LOGIN REPLICATION PASSWORD '{name}'")
    yield name
    database.execute(f"DROP OWNED BY {name} CASCADE")
    database.execute(f"DROP ROLE {name}")


def of(dsn: str, directory: Path, capture: pytest.CaptureFixture[str]) -> Commands:
    return Commands({"source": {"dsn": dsn}, "sink": {"kind": "memory"}}, directory, capture)


def all_refuse(commands: Commands, says: str, fix: str, *but: str) -> None:
    """The doctor has the complaint with its fix, and each command but these ends with both."""
    complaints = [each for each in json.loads(commands.walrelay("doctor", "--json").out)["findings"] if each["fix"]]
    assert any(says in each["detail"] and fix in each["fix"] for each in complaints), complaints
    for command in ("init", "tail", "tail --follow --limit 1", "status"):
        if command not in but:
            told = commands.walrelay(*command.split())
            assert told.code == 1, f"{command}: {told}"
            assert says in told.err, command
            assert fix in told.err, command
    if "run" not in but:
        came, why = commands.relays(event=True)
        assert came == "refused"
        assert says in why
        assert fix in why


def test_wal_level_replica_is_named_before_anything_is_made(
    private_postgres: PostgresMaker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = private_postgres(wal_level="replica")
    commands = of(server.dsn, tmp_path, capfd)
    all_refuse(commands, "a logical slot needs logical", "ALTER SYSTEM SET wal_level = logical;", "status")
    assert commands.walrelay("status").code == 1
    assert server.execute("SELECT to_regclass('outbox'), to_regnamespace('walrelay')") == [(None, None)]
    server.execute("ALTER SYSTEM SET wal_level = logical")
    server.restart()
    assert commands.walrelay("init").code == 0
    assert commands.relays(event=False) == ("relayed", "")


def test_a_server_without_a_free_slot_is_named_before_anything_is_made(
    server: PostgresServer, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database.execute("SELECT pg_create_physical_replication_slot('the_only_one')")
    try:
        all_refuse(
            of(database.dsn, tmp_path, capfd),
            "none of 1 is free; nobody reads the_only_one",
            "ALTER SYSTEM SET max_replication_slots = 11;",
            *("run", "tail", "tail --follow --limit 1", "status"),
        )
        assert database.execute("SELECT to_regclass('outbox')") == [(None,)]
    finally:
        database.execute("SELECT pg_drop_replication_slot('the_only_one')")


@pytest.mark.parametrize(
    ("mistake", "says", "fix"),
    [
        ("password", "password authentication failed", "ALTER ROLE"),
        ("role", "password authentication failed", "ALTER ROLE"),  # the server does not tell strangers who is there
        ("database", 'database "nowhere" does not exist', 'CREATE DATABASE "nowhere";'),
        ("attribute", "has no REPLICATION attribute", "REPLICATION;"),
        ("login", "is not permitted to log in", "LOGIN;"),
        ("tls", "does not support SSL", "ALTER SYSTEM SET ssl = on;"),
        ("template0", 'database "template0" is not currently accepting connections', "template0 takes no connections"),
    ],
)
def test_a_mistake_in_the_first_connection_ends_the_run_with_its_cure(
    mistake: str, says: str, fix: str, server: PostgresServer, database: Database, relay: str, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    parts = {"user": relay, "password": relay, "dbname": database.name, "sslmode": "prefer"}
    if mistake == "attribute":
        database.execute(f"ALTER ROLE {relay} NOSUPERUSER NOREPLICATION")
    elif mistake == "template0":
        parts["dbname"] = mistake
    elif mistake == "login":
        database.execute(f"ALTER ROLE {relay} NOLOGIN")
    else:
        wrong = {"password": "password", "role": "user", "database": "dbname", "tls": "sslmode"}[mistake]
        parts[wrong] = "require" if mistake == "tls" else "nowhere"
    dsn = psycopg.conninfo.make_conninfo(database.dsn, **parts)
    status = ["status"] if mistake == "attribute" else []  # reads catalog views only
    all_refuse(of(dsn, tmp_path, capfd), says, fix, *status)


class BadRequest(BaseRequestHandler):
    """What a web server says to anything but HTTP."""

    def handle(self) -> None:
        self.request.recv(1024)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("sslmode", ["prefer", "disable"])
def test_a_web_server_at_the_port_ends_the_run_with_the_advice_to_look_at_it(
    sslmode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with TCPServer((LOOPBACK, 0), BadRequest) as web:
        answering = Thread(target=web.serve_forever, args=(0.05,))
        answering.start()
        try:
            dsn = f"postgresql://postgres@{LOOPBACK}:{web.server_address[1]}/shop?sslmode={sslmode}"
            all_refuse(of(dsn, tmp_path, capfd), "received", "no PostgreSQL answers at that port")
        finally:
            web.shutdown()
            answering.join()


def test_a_password_that_is_changed_under_a_relay_is_waited_for(
    server: PostgresServer, database: Database, relay: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    commands = of(as_role(database.dsn, relay), tmp_path, capfd)
    assert commands.walrelay("init").code == 0
    stop, seen = Stop(), RelayState()
    settings = Settings.model_validate(commands.settings | {"retry": {"min_pause": 0.05, "max_pause": 0.2}})
    errors: list[BaseException] = []

    def run() -> None:
        try:
            compose.relay_until(stop, compose.wiring(settings), seen)
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: seen.streams or errors, 20, "the slot to stream")
        database.execute(f"ALTER ROLE {relay} PASSWORD 'changed'")
        server.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
        wait_until(lambda: "ALTER ROLE" in seen.waits or errors, 20, "the relay to say what to do")
        assert "password authentication failed" in seen.waits
        database.execute(f"ALTER ROLE {relay} PASSWORD '{relay}'")
        database.execute("INSERT INTO outbox (aggregate_type, aggregate_id, type) VALUES ('order', '1', 'placed')")
        wait_until(lambda: seen.settled or errors, 20, "the event")
    finally:
        stop.set()
        thread.join(20)
    assert errors == []


def test_a_pooler_that_carries_no_replication_ends_the_run_with_the_address_of_the_server(
    server: PostgresServer, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = choose.found(pgbouncer_program)
    with PgBouncer(program, "127.0.0.1", server.port, "postgres", "") as pooler:
        commands = of(pooler.dsn(database.name), tmp_path, capfd)
        commands.settings["source"]["dsn"] = database.dsn
        assert commands.walrelay("init").code == 0
        commands.settings["source"]["dsn"] = pooler.dsn(database.name)
        findings = json.loads(commands.walrelay("doctor", "--json").out)["findings"]
        if ("replication connection", "warning") in [(each["subject"], each["verdict"]) for each in findings]:
            pytest.skip("this PgBouncer passes replication connections on")
        came, why = commands.relays(event=False)
        assert came == "refused"
        assert "source.dsn: " in why


def test_commits_that_would_wait_for_the_relay(
    server: PostgresServer, database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    commands = of(database.dsn, tmp_path, capfd)
    assert commands.walrelay("init").code == 0
    server.configure(synchronous_standby_names="*")
    try:
        assert commands.walrelay("doctor").code == 1
        refused = commands.walrelay("init")
        assert refused.code == 1
        assert "synchronous standby" in refused.err
        assert "synchronous standby" in commands.walrelay("status").out
        came, why = commands.relays(event=False)
        assert (came, "synchronous standby" in why) == ("refused", True)
    finally:
        server.configure(synchronous_standby_names=None)
    assert commands.relays(event=False) == ("relayed", "")


def test_a_standby_is_waited_for_by_run_and_refused_by_the_others(
    private_postgres: PostgresMaker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = private_postgres()
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    commands = of(server.dsn, tmp_path, capfd)
    assert commands.walrelay("doctor").code == 1
    for command in ("init", "tail", "status"):
        refused = commands.walrelay(command)
        assert (refused.code, "standby" in refused.err) == (1, True), command
    came, why = commands.relays(event=False)
    assert (came, "standby" in why) == ("waits", True)


def test_a_standby_that_keeps_a_slot_from_being_looked_into_is_named_and_not_waited_for_without_end(
    private_postgres: PostgresMaker, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.source.peek._PATIENCE", 0.5)
    monkeypatch.setattr("walrelay.source.peek._LOOK", 0.3)
    server = private_postgres(major=18)
    server.execute("SELECT pg_create_physical_replication_slot('away', true)")
    server.configure(synchronized_standby_slots="away")
    commands = Commands({"source": {"dsn": server.dsn, "failover": True}, "sink": {"kind": "memory"}}, tmp_path, capfd)
    assert commands.walrelay("init").code == 0
    trouble = "standby slot away: no standby is connected to it"
    free = "SELECT active_pid IS NULL FROM pg_replication_slots WHERE slot_name = 'walrelay'"
    for command in ("tail", "skip --position 0/1 --yes"):
        waited = commands.walrelay(*command.split())
        assert waited.code == 1
        assert f"note: nothing of slot 'walrelay' is shown until a standby has it: {trouble}" in waited.err
        assert f"error: slot 'walrelay' cannot be looked into: PostgreSQL waits for {trouble}" in waited.err
        assert "hint: Start the standby, or take its slot out of synchronized_standby_slots" in waited.err
        wait_until(lambda: server.execute(free) == [(True,)], 20, "PostgreSQL to let the slot go")
