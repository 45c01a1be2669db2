"""The doctor and `outbox.mark_published`."""

from pathlib import Path

import pytest

from tests.integration.operations.doctor.patient import Patient
from tests.servers.database import Database


@pytest.fixture
def marking(database: Database, tmp_path: Path) -> Patient:
    marks = {"where": "published = false AND type NOT LIKE '%x'", "set": "published = true"}
    patient = Patient(tmp_path, database.dsn, source={"slot": database.name}, outbox={"mark_published": marks})
    patient.init()
    return patient


def test_a_column_that_is_not_there_and_an_index_that_is_missing_are_told(marking: Patient, database: Database) -> None:
    complaint = marking.complaint("marks")
    assert complaint.detail == 'published rows cannot be marked: column "published" does not exist'
    database.execute("ALTER TABLE outbox ADD published boolean NOT NULL DEFAULT false")
    complaint = marking.complaint("marks")
    assert "no index" in complaint.detail
    marking.paste(complaint.fix)
    assert marking.told("marks")[1:] == ("ok", "published rows can be marked", "")
