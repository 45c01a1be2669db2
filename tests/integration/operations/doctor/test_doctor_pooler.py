"""A real PgBouncer in front of the server: sessions that are shared are refused, and no replication is carried."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

import psycopg
import pytest

from tests.integration.operations.doctor.patient import Patient
from tests.servers import choose
from tests.servers.database import Database
from tests.servers.pgbouncer import PgBouncer, pgbouncer_program
from walrelay.errors import Disconnected
from walrelay.postgres import connect
from walrelay.postgres.dsn import SharedSession, has_pooler

SESSION = "pool_mode = session"

# Those that connect with the settings of the table, and the lock or the settings that they need of their session.
COMMANDS = (
    "status",
    "doctor",
    "init",
    "init --backfill",
    "tail",
    "tail --follow",
    "run",
    "cleanup --older-than 1d",
    "replay --all",
    "recover --yes",
    "dlq list",
    "dlq replay --topic orders",
    "skip --position 0/1:0",
    "drop --yes",
)

# Of this database alone: other tests lock in theirs, on the same server.
ADVISORY_LOCKS = (
    "SELECT * FROM pg_locks WHERE locktype = 'advisory'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class MakePooler(Protocol):
    """A PgBouncer in front of the shared server, with further lines of its configuration."""

    def __call__(self, *settings: str) -> PgBouncer: ...


@pytest.fixture
def in_front(database: Database) -> Iterator[MakePooler]:
    program = choose.found(pgbouncer_program)
    with ExitStack() as stack, psycopg.connect(database.dsn) as direct:
        info = direct.info
        yield lambda *settings: stack.enter_context(
            PgBouncer(program, info.host, info.port, info.user, info.password, *settings)
        )


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_shared_sessions_are_refused_by_every_command_and_left_as_they_were(
    in_front: MakePooler, database: Database, tmp_path: Path, mode: str
) -> None:
    Patient(tmp_path, database.dsn).init()
    slots = f"SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots WHERE database = '{database.name}'"
    before = database.execute(slots)
    dsn = in_front(f"pool_mode = {mode}", "max_client_conn = 20").dsn(database.name)
    patient = Patient(tmp_path, dsn, database.dsn)
    patient.settings["sink"] = {"kind": "memory"}
    for command in COMMANDS:
        result = patient.run(*command.split())
        assert result.exit_code == 1, (command, result.output)
        assert "a pooler answers here" in result.output or "gives each transaction another session" in result.output
        assert "source.dsn: " in result.output, command
    with psycopg.connect(dsn, autocommit=True) as application:
        ours = "SELECT name, setting FROM pg_settings WHERE source = 'session' AND name <> 'application_name'"
        assert [name for name, _ in application.execute(ours)] in ([], ["client_encoding"])
        application.execute("INSERT INTO outbox (aggregate_type, aggregate_id, type) VALUES ('order', '1', 'Placed')")
    assert database.execute(ADVISORY_LOCKS) == []
    assert database.execute(slots) == before != []
    complaint = patient.complaint("connection")
    assert complaint.verdict == "problem"
    _paste(patient, complaint.fix, database)
    assert patient.told("connection").verdict == "ok"


def test_sessions_that_are_given_out_in_turn_are_recognised(in_front: MakePooler, database: Database) -> None:
    dsn = in_front("server_round_robin = 1").dsn(database.name)
    with psycopg.connect(dsn) as one, psycopg.connect(dsn) as another:  # in transactions, so that there are two
        one.execute("SELECT 1")
        another.execute("SELECT 1")
    _expect_refusals(dsn)


def test_sessions_that_many_take_from_each_other_are_recognised(in_front: MakePooler, database: Database) -> None:
    dsn = in_front("default_pool_size = 3").dsn(database.name)
    done = Event()

    def work() -> None:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
            while not done.is_set():
                connection.execute("SELECT pg_sleep(0.001)")

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        _expect_refusals(dsn)
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_sessions_that_are_not_shared_are_taken(in_front: MakePooler, database: Database, tmp_path: Path) -> None:
    dsn = in_front(SESSION).dsn(database.name)
    for _ in range(3):
        with connect.ordinary(dsn) as connection:
            assert has_pooler(connection)
    patient = Patient(tmp_path, dsn, database.dsn)
    patient.init()
    assert patient.run("status").exit_code == 0
    assert patient.run("drop", "--yes").exit_code == 0
    assert database.execute(ADVISORY_LOCKS) == []


def test_the_last_session_there_is_will_do(in_front: MakePooler, database: Database, tmp_path: Path) -> None:
    Patient(tmp_path, database.dsn).init()
    patient = Patient(tmp_path, in_front(SESSION, "default_pool_size = 1").dsn(database.name), database.dsn)
    listed = patient.run("dlq", "list")
    assert (listed.exit_code, "no open dead letters" in listed.output) == (0, True), listed.output
    assert database.execute(ADVISORY_LOCKS) == []


@pytest.mark.chaos  # as long as it takes to wait for a session again and again
def test_the_last_session_there_is_will_not_do_where_others_take_it(in_front: MakePooler, database: Database) -> None:
    dsn = in_front("default_pool_size = 1").dsn(database.name)
    done = Event()

    def work() -> None:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
            while not done.is_set():
                connection.execute("SELECT pg_sleep(2)")

    thread = Thread(target=work)
    thread.start()
    try:
        with pytest.raises((SharedSession, Disconnected)):
            connect.ordinary(dsn)
    finally:
        done.set()
        thread.join()


def test_a_pooler_that_refuses_replication_is_recognised(
    in_front: MakePooler, database: Database, tmp_path: Path
) -> None:
    if _version() >= (1, 23):
        pytest.skip("this PgBouncer passes replication connections on")
    _expect_a_direct_dsn(in_front(SESSION), database, tmp_path)


def test_a_pooler_that_drops_the_replication_parameter_is_recognised(
    in_front: MakePooler, database: Database, tmp_path: Path
) -> None:
    if _version() >= (1, 23):
        pytest.skip("this PgBouncer passes replication connections on")
    _expect_a_direct_dsn(in_front(SESSION, "ignore_startup_parameters = replication"), database, tmp_path)


def test_a_pooler_that_passes_replication_on_is_a_warning(
    in_front: MakePooler, database: Database, tmp_path: Path
) -> None:
    if _version() < (1, 23):
        pytest.skip("this PgBouncer refuses replication connections")
    patient = Patient(tmp_path, in_front(SESSION).dsn(database.name), database.dsn)
    assert patient.complaint("replication connection").verdict == "warning"


def _expect_a_direct_dsn(between: PgBouncer, database: Database, tmp_path: Path) -> None:
    patient = Patient(tmp_path, between.dsn(database.name), database.dsn)
    assert patient.told("connection").verdict == "ok"
    complaint = patient.complaint("replication connection")
    assert complaint.verdict == "problem"
    assert complaint.detail.startswith("the DSN leads to a connection pooler, which refuses: ")
    _paste(patient, complaint.fix, database)
    assert patient.told("replication connection").verdict == "ok"


def _expect_refusals(dsn: str) -> None:
    for _ in range(5):
        with pytest.raises(SharedSession):
            connect.ordinary(dsn)


def _paste(patient: Patient, fix: str, database: Database) -> None:
    """What the fix says, but for the role, which is the pooler's own."""
    with psycopg.connect(database.dsn) as direct:
        assert f"host={direct.info.hostaddr} port={direct.info.port}" in fix
        patient.paste(fix.replace("user=anyone", f"user={direct.info.user}"))


def _version() -> tuple[int, ...]:
    answer = subprocess.run([pgbouncer_program(), "--version"], capture_output=True, text=True, check=True)
    return tuple(map(int, answer.stdout.split()[1].split(".")[:2]))
