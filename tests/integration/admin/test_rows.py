"""Rows by way of the admin API: found by id, aggregate and time, on one connection, and nothing of their payload."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.admin.conftest import Api, MakeApi, admin_section, refused, sections_of
from tests.servers.database import Database

SECRET = "4111-1111"


def emit(database: Database, aggregate: str = "42") -> str:
    query = "SELECT walrelay.emit('order', %s, 'Placed', jsonb_build_object('card', %s::text))"
    return str(database.execute(query, [aggregate, SECRET])[0][0])


@pytest.fixture
def api(make_api: MakeApi, database: Database) -> Api:
    """One connection to the database is all that it has."""
    return make_api(**sections_of(database), admin=admin_section(connections=1, statement_timeout=2))


def rows(api: Api, database: Database, **by: Any) -> dict[str, Any]:
    answer = api.get(f"/relays/{database.name}/rows", scope="operate", **by)
    assert answer.status_code == 200, answer.text
    assert SECRET not in answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_row_is_found_by_its_id_its_aggregate_and_its_time(api: Api, database: Database) -> None:
    id_, other = emit(database), emit(database, "43")
    (row,) = rows(api, database, id=id_)["rows"]
    assert (row["state"], row["type"], row["aggregate_id"], row["in_table"]) == ("waiting", "Placed", "42", True)
    assert (row["copies"], row["dead_letter"], row["read_back"]) == ([], None, "not asked")
    assert datetime.fromisoformat(row["written_at"]) > datetime.now(UTC) - timedelta(minutes=5)
    assert [each["id"] for each in rows(api, database, aggregate_type="order", aggregate_id="42")["rows"]] == [id_]
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    first = rows(api, database, since=since, limit=1)
    second = rows(api, database, since=since, limit=1, after=first["next"])
    assert [each["id"] for page in (first, second) for each in page["rows"]] == [other, id_]
    assert second["next"] is None
    (read,) = rows(api, database, id=id_, read_back="true")["rows"]
    for _ in range(5):  # one after the other: nobody reads for ever
        assert rows(api, database, id=id_, read_back="true")["rows"][0]["read_back"] == read["read_back"]
    assert read["read_back"] == "not possible: a sink of kind 'memory' cannot be read back"


def test_what_is_not_to_be_answered(api: Api, database: Database) -> None:
    path = f"/relays/{database.name}/rows"
    refused(api.get(path, id="1"), 403, "operate")
    refused(api.get(path, scope="operate"), 422, "say which rows")
    refused(api.get(path, scope="operate", aggregate_id="42"), 422, "aggregate_type")
    refused(api.get(path, scope="operate", id="1", after="nonsense"), 409, "`after`")
    with database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE outbox")
        refused(api.get(path, scope="operate", id="1"), 409, "given up")
    assert rows(api, database, id="1")["rows"][0]["state"] == "unknown"
