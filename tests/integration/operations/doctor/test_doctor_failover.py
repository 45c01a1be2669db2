"""The doctor and what a failover needs: the slot, its copy on the standby, and a standby that is ahead of the relay."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.operations.doctor.patient import Patient
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.standby import Pair, Standby
from tests.servers.waiting import wait_until
from walrelay.control.asking import activity
from walrelay.errors import Fatal
from walrelay.postgres.catalog import Catalog

SUBJECTS = ("failover", "synchronized_standby_slots", "sync_replication_slots", "hot_standby_feedback")


@pytest.fixture(scope="module")
def pair(machine: Machine) -> Iterator[Pair]:
    """A primary and a standby with failover slots; each test leaves both running."""
    programs = choose.found(lambda: choose.newest_postgres_programs(machine))
    if programs.major < 17:
        pytest.skip("PostgreSQL 17 has failover slots first")
    with PostgresServer(programs) as primary, Standby(primary) as standby:
        yield Pair(primary, standby)


@pytest.fixture
def database(pair: Pair) -> Iterator[Database]:
    """With both servers' settings as they are needed, and put back."""
    with ExitStack() as stack:
        for server in (pair.primary, pair.standby):
            stack.callback(server.configure)
            stack.callback(server.execute, "ALTER SYSTEM RESET ALL")
        pair.primary.configure(synchronized_standby_slots=pair.standby.slot)
        database = pair.create_database()
        stack.callback(database.drop_slots)  # a DROP DATABASE ends a standby that synchronises one just then
        pair.standby.catch_up()
        yield database


@pytest.fixture
def patient(database: Database, pair: Pair, tmp_path: Path) -> Patient:
    """Initialised, with a slot that is for failover; statements to paste are for the primary."""
    return initialised(database, pair, tmp_path, failover=True)


def initialised(database: Database, pair: Pair, directory: Path, *, failover: bool) -> Patient:
    source = {"slot": database.name, "failover": failover}
    patient = Patient(directory, database.dsn, pair.primary.dsn, source=source)
    patient.init()
    return patient


def subjects(patient: Patient) -> set[str]:
    """What of all that is about failover the doctor complains of."""
    return {each.subject for each in patient.complaints() if each.subject in SUBJECTS}


def test_a_standby_that_could_take_over_is_told(patient: Patient, pair: Pair, database: Database) -> None:
    pair.standby.wait_for_slot(database.name, move=True)
    wait_until(lambda: not subjects(patient), 40, "the standby to be good in the doctor's eyes")
    told = [each.detail for each in patient.findings() if each.subject == "failover"]
    assert f"the standby at 127.0.0.1:{pair.standby.port} has {database.name}, and could take over" in told


def test_of_several_hosts_the_one_that_is_no_standby_is_taken(patient: Patient, pair: Pair, database: Database) -> None:
    hosts = f"host=127.0.0.1,127.0.0.1 port={pair.standby.port},{pair.primary.port}"
    patient.settings["source"]["dsn"] = f"{hosts} user=postgres dbname={database.name}"
    assert patient.told("connection").detail.endswith(f"127.0.0.1:{pair.primary.port}/{database.name} as postgres")
    assert patient.told("primary").verdict == "ok"
    assert patient.told("replication connection").verdict == "ok"


def test_a_slot_that_was_not_made_for_failover(database: Database, pair: Pair, tmp_path: Path) -> None:
    patient = initialised(database, pair, tmp_path, failover=False)
    patient.settings["source"]["failover"] = True
    complaint = patient.complaint("failover")
    assert complaint.verdict == "warning"
    assert "does not survive a failover" in complaint.detail
    command = complaint.fix.partition(" -c ")[2].strip("'")
    assert command == f'ALTER_REPLICATION_SLOT "{database.name}" (FAILOVER true)'
    dsn = f"host=127.0.0.1 port={pair.primary.port} user=postgres dbname=postgres replication=database"
    subprocess.run([pair.primary.bin("psql"), dsn, "-c", command], check=True, capture_output=True, timeout=20)
    assert "was made without it" not in patient.told("failover").detail


def test_a_standby_that_does_not_have_the_slot_yet(patient: Patient, pair: Pair, database: Database) -> None:
    pair.standby.stop()
    database.drop_slots()
    database.execute("DELETE FROM walrelay.slots")
    patient.init()
    pair.standby.start()
    complaint = patient.complaint("failover")
    assert f"the standby at 127.0.0.1:{pair.standby.port} would not have {database.name}" in complaint.detail
    patient.paste(complaint.fix)
    pair.standby.wait_for_slot(database.name, move=True)
    assert patient.complaints() == []


def test_synchronized_standby_slots_that_is_empty(patient: Patient, pair: Pair) -> None:
    pair.primary.configure(synchronized_standby_slots=None)
    complaint = patient.complaint("synchronized_standby_slots")
    assert complaint.verdict == "warning"
    assert "may publish what a standby does not have" in complaint.detail
    assert "= 'standby_1';" in complaint.fix
    patient.paste(complaint.fix)
    wait_until(lambda: "synchronized_standby_slots" not in subjects(patient), 10, "the setting to be loaded")


def test_synchronized_standby_slots_that_names_a_standby_that_is_away(patient: Patient, pair: Pair) -> None:
    pair.standby.stop()
    complaint = patient.complaint("synchronized_standby_slots")
    assert complaint.verdict == "problem"
    assert complaint.detail.startswith("standby_1: no standby is connected to it; no event is delivered")
    patient.paste(complaint.fix)
    wait_until(lambda: patient.complaint("synchronized_standby_slots").verdict == "warning", 10, "the reload")
    assert "pg_create_physical_replication_slot" in patient.complaint("synchronized_standby_slots").fix
    pair.standby.start()


@pytest.mark.parametrize(
    ("name", "said"),
    [("standby_2", "it does not exist"), ("logical", "it is a logical slot")],
    ids=["missing", "logical"],
)
def test_synchronized_standby_slots_that_names_no_standby(patient: Patient, pair: Pair, name: str, said: str) -> None:
    if name == "logical":
        pair.primary.execute("SELECT pg_create_logical_replication_slot('logical', 'pgoutput')")
    pair.primary.configure(synchronized_standby_slots=("standby_1", name))
    (complaint,) = [each for each in patient.complaints() if each.subject == "synchronized_standby_slots"]
    assert complaint.verdict == "problem"
    assert complaint.detail.startswith(f"{name}: {said}")
    assert "= 'standby_1';" in complaint.fix
    if name == "logical":
        pair.primary.execute("SELECT pg_drop_replication_slot('logical')")


def test_hot_standby_feedback_that_is_off(patient: Patient, pair: Pair) -> None:
    pair.standby.configure(hot_standby_feedback=False)
    wait_until(lambda: "hot_standby_feedback" in subjects(patient), 20, "the standby to fall silent")
    complaint = patient.complaint("hot_standby_feedback")
    assert "off on the standby of standby_1" in complaint.detail
    paste_on(pair.standby, complaint.fix)
    wait_until(lambda: "hot_standby_feedback" not in subjects(patient), 20, "the standby to send feedback")


def test_sync_replication_slots_that_is_off(patient: Patient, pair: Pair) -> None:
    pair.standby.configure(sync_replication_slots=False)
    wait_until(lambda: "sync_replication_slots" in subjects(patient), 20, "the worker to end")
    complaint = patient.complaint("sync_replication_slots")
    assert complaint.verdict == "warning"
    paste_on(pair.standby, complaint.fix)
    wait_until(lambda: "sync_replication_slots" not in subjects(patient), 30, "the worker to start")


def paste_on(server: PostgresServer, fix: str) -> None:
    for statement in fix.partition("--")[0].split(";"):
        if statement.strip():
            server.execute(statement)


def test_a_standby_cannot_be_asked_for_what_relays_do(patient: Patient, pair: Pair, database: Database) -> None:
    """Its copy of walrelay.activity has no rows: it is not in the WAL."""
    pair.standby.catch_up()
    host = f"host=127.0.0.1 port={pair.standby.port} user=postgres dbname={database.name}"
    with Catalog(host) as catalog, pytest.raises(Fatal, match="is a standby"):
        activity(catalog)
