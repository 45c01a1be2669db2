"""The doctor and what may be wrong with a whole server: settings, limits, rules of access, a standby."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.conftest import PostgresMaker
from tests.integration.operations.doctor.patient import Patient, as_role
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until


@pytest.fixture(scope="module")
def small(machine: Machine) -> Iterator[PostgresServer]:
    """A server with room for one slot and one walsender; its settings are put back after each test."""
    programs = choose.found(lambda: choose.postgres_programs(machine))
    with PostgresServer(programs, {"max_replication_slots": 1, "max_wal_senders": 1}) as server:
        yield server


@pytest.fixture
def patient(small: PostgresServer, tmp_path: Path) -> Iterator[Patient]:
    """On a database of its own, initialised."""
    with ExitStack() as stack:
        database = small.create_database()
        stack.callback(database.drop)
        stack.callback(small.configure)
        stack.callback(small.execute, "ALTER SYSTEM RESET ALL")
        patient = Patient(tmp_path, database.dsn)
        patient.init()
        yield patient


def test_nothing_listens(tmp_path: Path) -> None:
    complaint = Patient(tmp_path, "postgresql://relay:secret@127.0.0.1:1/shop").complaint("connection")
    assert complaint.detail == "no connection to PostgreSQL at 127.0.0.1:1/shop: Connection refused"
    assert complaint.fix.startswith('pg_isready --dbname="host=127.0.0.1 port=1"')


def test_a_connection_string_that_is_none_is_not_shown(tmp_path: Path) -> None:
    result = Patient(tmp_path, "host=127.0.0.1 pass word=secret").run("doctor", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "source.dsn: is not a connection string that libpq understands" in result.stderr
    assert "secret" not in result.stderr


def test_a_database_that_does_not_exist(small: PostgresServer, tmp_path: Path) -> None:
    patient = Patient(tmp_path, small.database("nowhere"), small.dsn)
    complaint = patient.complaint("connection")
    assert complaint.fix == 'CREATE DATABASE "nowhere";  -- or correct source.dsn'
    patient.paste(complaint.fix)
    assert patient.told("connection").verdict == "ok"
    small.drop_database("nowhere")


def test_a_role_that_does_not_exist(small: PostgresServer, tmp_path: Path) -> None:
    patient = Patient(tmp_path, as_role(small.dsn, "nobody here"), small.dsn)
    complaint = patient.complaint("connection")
    assert complaint.fix == "CREATE ROLE \"nobody here\" LOGIN REPLICATION PASSWORD '...';"
    patient.paste(complaint.fix)
    assert {patient.told("connection").verdict, patient.told("replication connection").verdict} == {"ok"}
    small.execute('DROP ROLE "nobody here"')


def test_a_role_that_pg_hba_conf_does_not_let_in(private_postgres: PostgresMaker, tmp_path: Path) -> None:
    server = private_postgres()
    server.execute("CREATE ROLE relay LOGIN REPLICATION PASSWORD 'relay'")
    rules = server.data / "pg_hba.conf"
    rules.write_text("host all postgres 127.0.0.1/32 trust\n")
    server.configure()
    patient = Patient(tmp_path, as_role(server.dsn, "relay"), server.dsn)
    line, _, _ = patient.complaint("connection").fix.partition("   # into pg_hba.conf")
    assert line == 'host "postgres" "relay" 127.0.0.1/32 scram-sha-256'
    with rules.open("a") as file:
        file.write(line + "\n")
    server.configure()
    assert patient.told("connection").verdict == "ok"
    assert patient.told("replication connection").verdict == "ok"


def test_a_wrong_password(private_postgres: PostgresMaker, tmp_path: Path) -> None:
    server = private_postgres()
    server.execute("CREATE ROLE relay LOGIN REPLICATION PASSWORD 'right'")
    (server.data / "pg_hba.conf").write_text(
        "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    )
    server.configure()
    patient = Patient(tmp_path, as_role(server.dsn, "relay"), server.dsn)
    complaint = patient.complaint("connection")
    assert complaint.fix == "ALTER ROLE \"relay\" PASSWORD '...';  -- the one in source.dsn"


def test_wal_level_replica(private_postgres: PostgresMaker, tmp_path: Path) -> None:
    server = private_postgres(wal_level="replica")
    patient = Patient(tmp_path, server.dsn)
    complaint = patient.complaint("wal_level")
    assert complaint == (
        "wal_level",
        "problem",
        "replica; a logical slot needs logical",
        "ALTER SYSTEM SET wal_level = logical;  -- then restart PostgreSQL",
    )
    patient.paste(complaint.fix)
    server.configure()
    assert patient.complaint("wal_level").detail == "still replica: the new value waits for a restart"
    server.restart()
    assert patient.told("wal_level").verdict == "ok"


def test_a_standby(private_postgres: PostgresMaker, tmp_path: Path) -> None:
    server = private_postgres()
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    patient = Patient(tmp_path, server.dsn)
    complaint = patient.complaint("primary")
    assert complaint.verdict == "problem"
    assert "target_session_attrs=read-write" in complaint.fix
    assert [each.subject for each in patient.findings()] == ["connection", "primary"], "the rest is for the primary"


def test_no_free_slot(patient: Patient) -> None:
    patient.settings["source"]["slot"] = "another"
    complaint = patient.complaint("free slots")
    assert complaint.detail == "none of 1 is free; nobody reads walrelay"
    assert complaint.fix == "ALTER SYSTEM SET max_replication_slots = 11;  -- then restart PostgreSQL"


def test_a_slot_that_exists_needs_no_free_one(patient: Patient) -> None:
    assert patient.complaints() == []


def test_no_free_walsender(patient: Patient, small: PostgresServer) -> None:
    with psycopg.connect(f"{small.dsn}?replication=database"):
        complaint = patient.complaint("walsenders")
        assert complaint.detail == "none of 1 is free"
        assert complaint.fix == "ALTER SYSTEM SET max_wal_senders = 11;  -- then restart PostgreSQL"
        assert "replication connection" not in {each.subject for each in patient.findings()}
    wait_until(lambda: not patient.complaints(), 10, "the walsender to be free")


def test_a_slot_that_lost_its_wal(patient: Patient, small: PostgresServer) -> None:
    small.configure(max_slot_wal_keep_size="1MB")
    assert patient.complaint("max_slot_wal_keep_size").verdict == "warning"
    _write_wal(small, segments=3)
    small.execute("CHECKPOINT")
    complaint = patient.complaint("slot")
    assert "can no longer be read" in complaint.detail
    assert complaint.fix == f"walrelay recover -c {patient.path}"
    patient.paste(f"walrelay drop --yes -c {patient.path} && walrelay init -c {patient.path}")  # nothing was lost here
    patient.paste(patient.complaint("max_slot_wal_keep_size").fix)
    wait_until(lambda: not patient.complaints(), 10, "the setting to be loaded")


def test_a_slot_that_is_soon_lost(patient: Patient, small: PostgresServer) -> None:
    small.configure(max_slot_wal_keep_size="32MB")
    _write_wal(small, segments=4)
    complaint = patient.complaint("retained WAL")
    assert complaint.verdict == "warning"
    assert "is lost" in complaint.detail
    patient.paste(complaint.fix)
    wait_until(lambda: "no limit" in patient.told("max_slot_wal_keep_size").detail, 10, "the setting to be loaded")
    assert [each.subject for each in patient.complaints()] == ["max_slot_wal_keep_size"], (
        "it is said until it is one again"
    )


def test_a_slot_that_holds_back_much_wal(patient: Patient, small: PostgresServer) -> None:
    small.configure(max_wal_size="32MB", min_wal_size="32MB")
    _write_wal(small, segments=5)
    complaint = patient.complaint("retained WAL")
    assert "more than max_wal_size" in complaint.detail
    assert complaint.fix.startswith("walrelay run")


@pytest.mark.parametrize(("value", "said"), [("2s", "2s: a short pause"), ("0", "off: ")])
def test_a_wal_sender_timeout_that_does_not_fit(patient: Patient, small: PostgresServer, value: str, said: str) -> None:
    small.configure(wal_sender_timeout=value)
    complaint = patient.complaint("wal_sender_timeout")
    assert complaint.verdict == "warning"
    assert complaint.detail.startswith(said)
    patient.paste(complaint.fix)
    assert patient.complaints() == []
    small.execute("ALTER ROLE postgres RESET wal_sender_timeout")


def test_synchronous_standbys_among_which_walrelay_would_be(patient: Patient, small: PostgresServer) -> None:
    small.configure(synchronous_standby_names="*", synchronous_commit="local")
    complaint = patient.complaint("synchronous_standby_names")
    assert complaint.verdict == "problem"
    assert complaint.fix == "ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf();"
    patient.paste(complaint.fix)
    wait_until(lambda: not patient.complaints(), 10, "the setting to be loaded")


def test_output_plugin_libraries_without_the_plugin(patient: Patient, small: PostgresServer) -> None:
    if small.execute("SELECT 1 FROM pg_settings WHERE name = 'output_plugin_libraries'") == []:
        pytest.skip("this minor version of PostgreSQL has no output_plugin_libraries")
    small.configure(output_plugin_libraries="test_decoding")
    complaint = patient.complaint("output_plugin_libraries")
    assert complaint.verdict == "problem"
    patient.paste(complaint.fix)
    wait_until(lambda: not patient.complaints(), 10, "the setting to be loaded")


def test_a_stored_generated_column_that_postgresql_18_can_publish(postgres18: PostgresServer, tmp_path: Path) -> None:
    if postgres18.major < 18:
        pytest.skip("PostgreSQL 18 has it first")
    database = postgres18.create_database()
    try:
        patient = Patient(tmp_path, database.dsn, source={"slot": database.name})
        patient.init()
        database.execute("ALTER TABLE public.outbox DROP COLUMN topic")
        database.execute("ALTER TABLE public.outbox ADD COLUMN topic text GENERATED ALWAYS AS (type) STORED")
        complaint = patient.complaint("publication")
        assert complaint.fix == 'ALTER PUBLICATION "walrelay" SET (publish_generated_columns = stored);'
        patient.paste(complaint.fix)
        assert patient.complaints() == []
    finally:
        database.drop()


def _write_wal(server: PostgresServer, segments: int) -> None:
    for _ in range(segments):
        server.execute("SELECT pg_logical_emit_message(false, 'test', 'x')")
        server.execute("SELECT pg_switch_wal()")
