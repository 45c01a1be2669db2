"""Replays of rows and clean-ups by way of the admin API: the rooms of the commands, as jobs."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.admin.conftest import Api, MakeApi, refused, sections_of
from tests.integration.admin.test_letters import ended
from tests.servers.database import Database


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return tmp_path / "published"


@pytest.fixture
def api(make_api: MakeApi, database: Database, published: Path) -> Api:
    api = make_api(**sections_of(database) | {"sink": {"kind": "file", "path": str(published)}})
    for number in range(3):
        database.execute("SELECT walrelay.emit('order', %s, 'Placed', '{}')", [str(number)])
    for _ in range(2):  # the second time the slot knows which transactions had ended
        database.execute("CHECKPOINT")
        confirm(database)
    return api


def confirm(database: Database) -> None:
    """As a relay does that has published everything."""
    database.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [database.name])


def cleaned(api: Api, database: Database, body: Any) -> dict[str, Any]:
    """The job, for which a relay confirms meanwhile."""
    answer = api.post(f"/relays/{database.name}/cleanup", body, scope="admin")
    return ended(api, database, answer, meanwhile=lambda: confirm(database))


def lines(published: Path) -> list[str]:
    return [line for file in published.parent.glob("published*") for line in file.read_text().splitlines()]


def test_rows_are_published_again(api: Api, database: Database, published: Path) -> None:
    path = f"/relays/{database.name}/replay"
    some = {"select": {"aggregates": ["order:1", "order:2"]}}
    refused(api.post(path, some, scope="read"), 403, "operate")
    assert api.post(path, {**some, "dry_run": True}).json() == {"job": None, "matched": 2, "notes": []}
    assert lines(published) == []
    job = ended(api, database, api.post(path, some))
    assert (job["state"], job["action"], job["counts"], job["total"]) == ("done", "replay", {"published": 2}, 2)
    assert len(lines(published)) == 2
    assert all('"replayed"' in line for line in lines(published))
    database.execute("SELECT walrelay.emit('order', '9', 'Placed', '{}')")
    told = api.post(path, {"select": {"ids": ["nothing"]}, "dry_run": True}).json()
    assert (told["matched"], told["notes"]) == (0, ["nothing: the table has no such row"])
    told = api.post(path, {"select": {"everything": True}, "dry_run": True}).json()
    assert told["matched"] == 3
    assert "1 row that the relay may not have confirmed" in told["notes"][0]
    database.execute("CREATE RULE away AS ON INSERT TO outbox DO INSTEAD NOTHING")
    told = api.post(path, {**some, "dry_run": True}).json()
    assert told["notes"][-1].startswith("rule away of public.outbox keeps every row out of it")


def test_a_replay_that_is_cancelled_goes_on_when_it_is_asked_for_again(
    api: Api, database: Database, published: Path
) -> None:
    path, slow = f"/relays/{database.name}/replay", {"select": {"everything": True}, "rate": 0.01}
    answer = api.post(path, slow)
    job = answer.json()["job"]
    assert api.post(f"/relays/{database.name}/jobs/{job}/cancel").status_code == 202
    job = ended(api, database, answer)
    assert job["state"] == "interrupted"
    assert job["counts"].get("published", 0) < 3
    assert "The same request goes on" in job["hint"]
    job = ended(api, database, api.post(path, {"select": {"everything": True}}))
    assert job["state"] == "done"
    assert len(lines(published)) == 3


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ({}, "everything: true"),
        ({"everything": True, "types": ["Placed"]}, "everything: true"),
        ({"positions": "nonsense"}, "positions"),
        ({"since": "2026-01-01T00:00:00"}, "since"),
        ({"types": ["\0"]}, "types"),
    ],
)
def test_rows_that_may_not_be_meant_are_not_published(
    api: Api, database: Database, published: Path, select: dict[str, Any], said: str
) -> None:
    refused(api.post(f"/relays/{database.name}/replay", {"select": select}), 422, said)
    assert lines(published) == []


def test_old_rows_are_deleted_by_an_admin(api: Api, database: Database) -> None:
    path, old = f"/relays/{database.name}/cleanup", {"older_than_seconds": 0, "pace": 1}
    refused(api.post(path, old), 403, "admin")
    refused(api.post(path, {}, scope="admin"), 422, "how old", "older_than_seconds")
    job = cleaned(api, database, {**old, "dry_run": True})
    assert (job["state"], job["result"]["rows"], job["result"]["complete"]) == ("done", 3, True)
    assert database.execute("SELECT count(*) FROM outbox") == [(3,)]
    job = cleaned(api, database, old)
    assert (job["counts"]["pages"], job["result"]["rows"]) == (job["total"], 3)
    assert database.execute("SELECT count(*) FROM outbox") == [(0,)]
    log = api.get(f"/relays/{database.name}/audit-log", scope="admin").json()["entries"]
    assert log[0]["outcome"] == "3 rows deleted"
    assert api.get(f"/relays/{database.name}/jobs", scope="admin").json()["jobs"][0]["result"] is None
    assert api.get(f"/relays/{database.name}/jobs/{job['id']}").json()["result"] is None


def test_rows_that_no_relay_confirms_stay(api: Api, database: Database) -> None:
    database.execute("SELECT walrelay.emit('order', '9', 'Placed', '{}')")
    asked = {"older_than_seconds": 0, "timeout_seconds": 0.1}
    job = ended(api, database, api.post(f"/relays/{database.name}/cleanup", asked, scope="admin"))
    assert job["state"] == "failed"
    assert "because no relay reads it" in job["error"]
    assert "walrelay run" in job["hint"]
    assert database.execute("SELECT count(*) FROM outbox") == [(4,)]


def test_topics_that_cannot_be_read_back_are_not_audited(api: Api, database: Database) -> None:
    refused(api.post(f"/relays/{database.name}/audit"), 409, "walrelay audit")
    assert api.get(f"/relays/{database.name}/jobs").json()["jobs"] == []


def test_a_table_of_jobs_of_an_earlier_version_is_shown_and_is_brought_up_to_date(api: Api, database: Database) -> None:
    database.execute("ALTER TABLE walrelay.jobs DROP COLUMN result, ALTER COLUMN total TYPE int")
    job = ended(api, database, api.post(f"/relays/{database.name}/replay", {"select": {"everything": True}}))
    assert (job["state"], job["result"]) == ("done", None)
    asked = {"older_than_seconds": 0, "pace": 1}
    answer = api.post(f"/relays/{database.name}/cleanup", asked, scope="admin")
    refused(answer, 409, "earlier version", "walrelay init")
    api.init()
    assert cleaned(api, database, asked)["result"]["rows"] == 3
    assert database.execute("SELECT pg_typeof(total)::text FROM walrelay.jobs LIMIT 1") == [("bigint",)]
