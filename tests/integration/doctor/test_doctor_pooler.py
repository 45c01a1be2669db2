"""The doctor behind a real PgBouncer: the ordinary connection works, the replication connection does not."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

from tests.integration.doctor.patient import Patient
from tests.servers.choose import Missing, give_up
from tests.servers.database import Database
from tests.servers.pgbouncer import PgBouncer, pgbouncer_program


class MakePooler(Protocol):
    """A PgBouncer in front of the shared server, with further lines of its configuration."""

    def __call__(self, *settings: str) -> PgBouncer: ...


@pytest.fixture
def pooler(database: Database) -> Iterator[MakePooler]:
    try:
        program = pgbouncer_program()
    except Missing as error:
        missing = error
        give_up(missing)
    with ExitStack() as stack, psycopg.connect(database.dsn) as direct:
        info = direct.info
        yield lambda *settings: stack.enter_context(
            PgBouncer(program, info.host, info.port, info.user, info.password, *settings)
        )


def test_a_pooler_that_refuses_replication_is_recognised(
    pooler: MakePooler, database: Database, tmp_path: Path
) -> None:
    if _version() >= (1, 23):
        pytest.skip("this PgBouncer passes replication connections on")
    _expect_a_direct_dsn(pooler(), database, tmp_path)


def test_a_pooler_that_drops_the_replication_parameter_is_recognised(
    pooler: MakePooler, database: Database, tmp_path: Path
) -> None:
    if _version() >= (1, 23):
        pytest.skip("this PgBouncer passes replication connections on")
    _expect_a_direct_dsn(pooler("ignore_startup_parameters = replication"), database, tmp_path)


def test_a_pooler_that_passes_replication_on_is_a_warning(
    pooler: MakePooler, database: Database, tmp_path: Path
) -> None:
    if _version() < (1, 23):
        pytest.skip("this PgBouncer refuses replication connections")
    patient = Patient(tmp_path, pooler().dsn(database.name), database.dsn)
    assert patient.complaint("replication connection").verdict == "warning"


def _expect_a_direct_dsn(pooler: PgBouncer, database: Database, tmp_path: Path) -> None:
    patient = Patient(tmp_path, pooler.dsn(database.name), database.dsn)
    assert patient.told("connection").verdict == "ok"
    complaint = patient.complaint("replication connection")
    assert complaint.verdict == "problem"
    assert complaint.detail.startswith("the DSN leads to a connection pooler, which refuses: ")
    with psycopg.connect(database.dsn) as direct:
        assert f"host={direct.info.hostaddr} port={direct.info.port}" in complaint.fix
        user = direct.info.user
    patient.paste(complaint.fix.replace("user=anyone", f"user={user}"))  # the pooler's own user
    assert patient.told("replication connection").verdict == "ok"


def _version() -> tuple[int, ...]:
    answer = subprocess.run([pgbouncer_program(), "--version"], capture_output=True, text=True, check=True)
    return tuple(map(int, answer.stdout.split()[1].split(".")[:2]))
