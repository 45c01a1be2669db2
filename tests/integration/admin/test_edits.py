"""Records of dead letters corrected by way of the admin API, and dead letters counted."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.admin.conftest import Api, MakeApi, refused, sections_of
from tests.integration.admin.test_letters import SECRET, ended, letter, write
from tests.servers.database import Database
from walrelay.dead_letter import UNDECODABLE
from walrelay.dead_letters.counts import COUNTS_OF_GROUPS, COUNTS_OF_TOPICS

EDIT = {"record": {"payload": {"card": SECRET, "small": True}}, "reason": "too large"}
PAYLOAD = json.dumps(EDIT["record"]["payload"])  # type: ignore[index]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return tmp_path / "published"


@pytest.fixture
def api(make_api: MakeApi, database: Database, published: Path) -> Api:
    return make_api(**sections_of(database) | {"sink": {"kind": "file", "path": str(published)}})


@pytest.fixture
def path(api: Api, database: Database) -> str:
    """Of a dead letter."""
    write(database, letter(1))
    return f"/relays/{database.name}/dead-letters/1"


def test_an_edit_is_tried_stored_replayed_and_in_the_log_without_the_event(
    api: Api, database: Database, path: str, published: Path
) -> None:
    refused(api.put(f"{path}/edit", EDIT, scope="read"), 403, "operate")
    tried = api.put(f"{path}/edit", {**EDIT, "dry_run": True}).json()
    assert (tried["dry_run"], tried["edited"], tried["edited_record"]["payload"]) == (True, True, PAYLOAD)
    assert tried["becomes"]["messages"][0]["value"] == PAYLOAD
    assert '+    "small": true' in tried["becomes"]["difference"]
    assert tried["becomes"]["refused"] is None
    assert api.get(path, scope="operate").json()["edited"] is False, "a trial stores nothing"
    assert api.get(f"/relays/{database.name}/audit-log", scope="admin").json()["entries"] == []
    edited = api.put(f"{path}/edit", EDIT)
    assert edited.status_code == 200
    shown = api.get(path, scope="operate").json()
    assert {**shown, "becomes": tried["becomes"], "dry_run": False} == edited.json()
    assert (shown["edited_by"], shown["edit_reason"]) == ("operate", "too large")
    assert json.loads(shown["record"]["payload"]) == {"card": SECRET, "number": 1}
    assert shown["edited_record"]["payload"] == PAYLOAD
    (listed,) = api.get(path.rpartition("/")[0]).json()["dead_letters"]
    assert (listed["edited"], listed["edited_by"], listed["edit_reason"]) == (True, "operate", None)
    ended(api, database, api.post(f"{path.rpartition('/')[0]}/replay", {"select": {"ids": [1]}}))
    (line,) = [line for file in published.parent.glob("published*") for line in file.read_text().splitlines()]
    assert json.loads(line)["value"] == PAYLOAD
    assert ["id", "e1"] in json.loads(line)["headers"]
    log = api.get(f"/relays/{database.name}/audit-log", scope="admin")
    assert SECRET not in log.text
    noted = [each for each in log.json()["entries"] if each["action"] == "dead_letters.edit"]
    assert [each["outcome"] for each in reversed(noted)] == [None, "done"]
    assert noted[0]["request"] == {"letter": 1, "reason": "too large"}
    refused(api.put(f"{path}/edit", EDIT), 409, "is replayed")


def test_an_edit_is_taken_back(api: Api, database: Database, path: str) -> None:
    refused(api.delete(f"{path}/edit"), 409, "is not edited")
    api.put(f"{path}/edit", EDIT)
    refused(api.delete(f"{path}/edit", scope="read"), 403)
    restored = api.delete(f"{path}/edit")
    assert restored.status_code == 200
    assert (restored.json()["edited"], restored.json()["edited_record"]) == (False, None)
    assert database.execute("SELECT edited_record, edited_at, edited_by FROM walrelay.dead_letters") == [
        (None, None, None)
    ]
    log = api.get(f"/relays/{database.name}/audit-log", scope="admin").json()["entries"]
    assert log[0]["action"] == "dead_letters.restore"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"record": {"id": "e2"}, "reason": "x"}, 422, "id cannot be edited"),
        ({"record": {"commit_lsn": "0/1"}, "reason": "x"}, 422, "commit_lsn cannot be edited"),
        ({"record": {"nonsense": 1}, "reason": "x"}, 422, "'nonsense' is not a field"),
        ({"record": {}, "reason": "x"}, 422, "nothing is edited"),
        ({"record": {"payload": "1"}}, 422, "reason"),
        ({"record": {"payload": "1"}, "reason": ""}, 422, "reason"),
        ({"record": [], "reason": "x"}, 422, "record"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_what_is_wrong(
    api: Api, database: Database, path: str, body: Any, status: int, said: str
) -> None:
    refused(api.put(f"{path}/edit", body), status, said)
    assert database.execute("SELECT edited_at FROM walrelay.dead_letters") == [(None,)]


def test_what_has_no_record_and_who_is_not_there_cannot_be_edited(api: Api, database: Database, path: str) -> None:
    write(database, letter(2, error=UNDECODABLE, record=None, message=None, raw=b"?"), letter(3, record=None))
    other = path.rpartition("/")[0]
    refused(api.put(f"{other}/2/edit", EDIT), 409, "could not be read")
    refused(api.put(f"{other}/3/edit", EDIT), 409, "an earlier version stored its message alone")
    refused(api.put(f"{other}/99/edit", EDIT), 404, "there is no dead letter 99")
    refused(api.delete(f"{other}/99/edit"), 404, "there is no dead letter 99")


def test_what_the_rules_refuse_is_told_and_may_be_stored(api: Api, path: str) -> None:
    told = api.put(f"{path}/edit", {"record": {"headers": "[]"}, "reason": "x"}).json()
    assert told["becomes"]["messages"] == []
    assert "headers" in told["becomes"]["refused"]
    assert "a replay would refuse it" in told["becomes"]["notices"][0]


def test_they_are_counted_by_what_is_known_of_them(api: Api, database: Database) -> None:
    path = f"/relays/{database.name}/dead-letters/summary"
    empty = {"open": 0, "by_status": {}, "by_error": [], "by_topic": [], "oldest": None, "newest": None}
    assert api.get(path).json() == empty
    write(database, *(letter(number, topic=f"t{number % 30}") for number in range(60)))
    write(database, letter(60, error="unroutable", topic=None), letter(61, status="skipped"))
    found = api.get(path).json()
    assert (found["open"], found["by_status"]) == (61, {"waiting": 61, "skipped": 1})
    assert found["by_error"] == [{"error": "poison", "count": 60}, {"error": "unroutable", "count": 1}]
    assert len(found["by_topic"]) == 20
    assert found["by_topic"][0] == {"topic": "t0", "count": 2}
    assert found["oldest"] < found["newest"]


def test_100_000_are_counted_and_found_without_reading_their_records(api: Api, database: Database) -> None:
    """By the plans, where the table is too large to be read as a whole."""
    database.execute(
        "INSERT INTO walrelay.dead_letters (slot_name, commit_lsn, ordinal, record_id, sink, topic, key, status, error,"
        " reason, attempts) SELECT %s, ('0/' || to_hex(n))::pg_lsn, 0, n::text, 's', 't' || n %% 50,"
        " (n %% 999)::text::bytea, 'waiting', 'poison', 'x', 1 FROM generate_series(1, 100000) n",
        [database.name],
    )
    database.execute("VACUUM ANALYZE walrelay.dead_letters")
    path = f"/relays/{database.name}/dead-letters"
    begun = time.monotonic()
    assert api.get(f"{path}/summary").json()["open"] == 100_000
    assert [each["id"] for each in api.get(path, id="99999").json()["dead_letters"]] == ["99999"]
    assert time.monotonic() - begun < 5
    with database.connect() as connection:
        connection.execute("SET enable_seqscan = off")
        for query in (COUNTS_OF_GROUPS, COUNTS_OF_TOPICS):
            plan = connection.execute(
                f"EXPLAIN (FORMAT JSON) {query}".encode(), [database.name, 20][: query.count("%s")]
            )
            assert "Index Only Scan" in json.dumps(plan.fetchall())
