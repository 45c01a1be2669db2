"""Fixtures of the doctor's tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.integration.operations.doctor.patient import Patient
from tests.servers.database import Database


class MakeRole(Protocol):
    """Makes a role of the test's own that can log in, and gives its name, which is its password too."""

    def __call__(self, *attributes: str) -> str: ...


@pytest.fixture
def patient(database: Database, tmp_path: Path) -> Patient:
    """With the default settings but for a slot of its own; `walrelay init` has not run."""
    return Patient(tmp_path, database.dsn, source={"slot": database.name})


@pytest.fixture
def healthy(patient: Patient) -> Patient:
    patient.init()
    return patient


@pytest.fixture
def role(database: Database) -> Iterator[MakeRole]:
    made: list[str] = []

    def make(*attributes: str) -> str:
        made.append(f"role_{len(made)}_{database.name}")
        database.execute(f"CREATE ROLE {made[-1]} LOGIN PASSWORD '{made[-1]}' {' '.join(attributes)}")
        return made[-1]

    yield make
    for name in made:
        database.execute(f"DROP OWNED BY {name}")
        database.execute(f"DROP ROLE {name}")
