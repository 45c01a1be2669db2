"""Dead letters by way of the admin API: pages, what each scope sees, replays and discards as jobs, and who did it."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.integration.admin.conftest import ONE_RELAY, Api, MakeApi, refused, sections_of
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.admin.access import Caller
from walrelay.admin.jobs import Jobs, Step, in_steps
from walrelay.admin.journal import Asked
from walrelay.dead_letter import UNDECODABLE, DeadLetter, Origin
from walrelay.dead_letters import DeadLetterTableWriter
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord
from walrelay.postgres.catalog import Catalog

SECRET = "4111-1111"


def letter(number: int, key: bytes = b"k", **changes: Any) -> DeadLetter:
    payload = json.dumps({"card": SECRET, "number": number}).encode()
    record = OutboxRecord(LSN(100), number, 0, f"e{number}", "thing", "k", None, payload, None, "t", None, None)
    message = Message("t", key, payload, [("id", record.id.encode())], 5)
    origin = Origin(record.commit_lsn, number, 0, record.id)
    return DeadLetter(origin, "waiting", "poison", f"cannot take {SECRET}", "t", key, record, message)._replace(
        **changes
    )


def write(database: Database, *letters: DeadLetter) -> None:
    with Catalog(database.dsn) as catalog:
        writer = DeadLetterTableWriter(catalog, database.name, lambda topic: "file")
        for each in letters:
            writer.write(each)


def statuses(database: Database) -> list[str]:
    return [status for (status,) in database.execute("SELECT status FROM walrelay.dead_letters ORDER BY ordinal")]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return tmp_path / "published"


@pytest.fixture
def api(make_api: MakeApi, database: Database, published: Path) -> Api:
    return make_api(**sections_of(database) | {"sink": {"kind": "file", "path": str(published)}})


def ended(api: Api, database: Database, answer: Any, meanwhile: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """The job, when it is no longer at work."""
    assert answer.status_code == 202, answer.text
    path = f"/relays/{database.name}/jobs/{answer.json()['job']}"

    def over() -> dict[str, Any] | None:
        meanwhile()
        job: dict[str, Any] = api.get(path, scope="operate").json()
        return job if job["state"] != "running" else None

    found = wait_until(over, 60, "the job to end")
    assert found is not None
    return found


def test_they_come_in_pages_in_the_order_of_their_positions(api: Api, database: Database) -> None:
    write(database, *(letter(number, key=b"%d" % number) for number in range(25)))
    path, found, after = f"/relays/{database.name}/dead-letters", list[str](), ""
    while after is not None:
        page = api.get(path, limit=10, after=after).json()
        found += [each["id"] for each in page["dead_letters"]]
        after = page["next"]
    assert found == [f"e{number}" for number in range(25)]
    refused(api.get(path, after="nonsense"), 422, "`next` of a page")


def test_they_are_found_by_what_is_known_of_them(api: Api, database: Database) -> None:
    write(database, letter(1), letter(2, topic="u", error="too_large"), letter(3, key=b"other"))

    def ids(scope: str = "operate", **by: Any) -> list[str]:
        page = api.get(f"/relays/{database.name}/dead-letters", scope=scope, **by).json()
        return [each["id"] for each in page["dead_letters"]]

    assert ids(topic="u") == ids(error="too_large") == ids(topic="u*", scope="read") == ["e2"]
    assert ids(id="e3") == ids(key="other") == ["e3"]
    assert ids(since="2099-01-01T00:00:00Z") == ids(status="replayed") == []
    assert ids(until="2099-01-01T00:00:00Z") == ids(everything=True) == ["e1", "e2", "e3"]
    refused(api.get(f"/relays/{database.name}/dead-letters", key="other"), 403, "operate")


def test_what_is_of_the_event_takes_the_scope_operate(api: Api, database: Database) -> None:
    write(database, letter(1))
    (id_,) = database.execute("SELECT id FROM walrelay.dead_letters")[0]
    path = f"/relays/{database.name}/dead-letters"
    assert SECRET not in api.get(path).text
    refused(api.get(f"{path}/{id_}"), 403, "operate")
    shown = api.get(f"{path}/{id_}", scope="operate").json()
    assert json.loads(shown["record"]["payload"])["card"] == SECRET
    assert shown["message"]["topic"] == "t"
    refused(api.get(f"{path}/{id_ + 1}", scope="operate"), 404, "there is no dead letter")
    refused(api.get(f"{path}/{id_}", token=ONE_RELAY.token), 404, "there is no relay")


def test_a_replay_is_a_job_that_publishes_closes_and_says_who_did_it(
    api: Api, database: Database, published: Path
) -> None:
    broken = letter(3, key=b"x", error=UNDECODABLE, record=None, message=None, raw=b"?")
    write(database, letter(1), letter(2, key=b"y"), broken)
    path = f"/relays/{database.name}/dead-letters/replay"
    tried = api.post(path, {"select": {"everything": True}, "dry_run": True}).json()
    assert tried == {"job": None, "matched": 3, "notes": []}
    job = ended(api, database, api.post(path, {"select": {"everything": True}}))
    assert (job["state"], job["total"], job["counts"]) == ("done", 3, {"replayed": 2, "refused": 1})
    assert len(job["notes"]) == 1
    assert statuses(database) == ["replayed", "replayed", "waiting"]
    lines = [line for file in published.parent.glob("published*") for line in file.read_text().splitlines()]
    assert len(lines) == 2
    assert database.execute("SELECT DISTINCT closed_by FROM walrelay.dead_letters WHERE status = 'replayed'") == [
        ("operate",)
    ]
    before, after = reversed(api.get(f"/relays/{database.name}/audit-log", scope="admin").json()["entries"])
    for entry in (before, after):
        assert (entry["caller"], entry["way"], entry["address"]) == ("operate", "token", "127.0.0.1")
        assert (entry["action"], entry["job"]) == ("dead_letters.replay", job["id"])
        assert entry["request"] == {"select": {"everything": True}}
    assert (before["outcome"], after["outcome"]) == (None, "2 replayed, 1 refused")
    assert SECRET not in api.get(f"/relays/{database.name}/jobs").text


def test_a_discard_is_for_admins_and_keeps_the_reason(api: Api, database: Database) -> None:
    write(database, letter(1), letter(2, topic="audit"))
    path = f"/relays/{database.name}/dead-letters/discard"
    body = {"select": {"topic": "audit"}, "reason": "test data"}
    refused(api.post(path, body), 403, "admin")
    job = ended(api, database, api.post(path, body, scope="admin"))
    assert job["counts"] == {"discarded": 1}
    assert statuses(database) == ["waiting", "discarded"]
    query = "SELECT closed_by, closed_why FROM walrelay.dead_letters WHERE status = 'discarded'"
    assert database.execute(query) == [("admin", "test data")]


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ({}, "everything: true"),
        ({"limit": 5}, "everything: true"),
        ({"everything": True, "topic": "t"}, "everything: true"),
        ({"nothing": 1}, "nothing"),
        ({"ids": [0]}, "ids"),
        ({"since": "2026-01-01T00:00:00"}, "since"),
    ],
)
def test_a_selection_that_may_not_be_meant_changes_nothing(
    api: Api, database: Database, select: dict[str, Any], said: str
) -> None:
    write(database, letter(1))
    refused(api.post(f"/relays/{database.name}/dead-letters/replay", {"select": select}), 422, said)
    assert statuses(database) == ["waiting"]


def test_nothing_is_changed_where_it_cannot_be_noted_who_did_it(api: Api, database: Database) -> None:
    write(database, letter(1))
    database.execute("DROP TABLE walrelay.audit_log")
    answer = api.post(f"/relays/{database.name}/dead-letters/replay", {"select": {"everything": True}})
    refused(answer, 409, "no table walrelay.audit_log", "walrelay init")
    assert statuses(database) == ["waiting"]


def test_a_job_that_fails_says_why(make_api: MakeApi, database: Database, published: Path) -> None:
    published.touch()
    nowhere = {"kind": "file", "path": str(published / "below a file")}
    api = make_api(**sections_of(database) | {"sink": nowhere})
    write(database, letter(1))
    answer = api.post(f"/relays/{database.name}/dead-letters/replay", {"select": {"ids": [1]}})
    job = ended(api, database, answer)
    assert job["state"] == "failed"
    assert "below a file" in job["error"]
    assert statuses(database) == ["waiting"]
    assert api.bugs == []


def test_a_stop_ends_a_job_after_the_part_it_is_at_and_a_crash_is_told(api: Api, database: Database) -> None:
    relay = api.relays.found().relays[database.name]
    asked = Asked(Caller("x", "token", "operate"), "127.0.0.1", "test", {})
    begun, on = Event(), Event()

    def steps() -> Any:
        for _ in range(3):
            begun.set()
            on.wait(60)
            yield Step("done")

    jobs = Jobs()
    started = jobs.start(relay, asked, lambda catalog: in_steps(3, steps()))
    assert begun.wait(60)
    path = f"/relays/{database.name}/jobs/{started.job}"
    assert api.get(path).json()["state"] == "running"
    jobs.leave()
    on.set()
    jobs.close()
    job = api.get(path).json()
    assert (job["state"], job["counts"]) == ("interrupted", {"done": 1})
    database.execute("UPDATE walrelay.jobs SET state = 'running'")  # as a process leaves it that was killed
    assert api.get(path).json()["state"] == "interrupted"
    refused(api.get(f"/relays/{database.name}/jobs/999"), 404)


def test_a_job_is_cancelled_by_the_instance_that_began_it(api: Api, database: Database) -> None:
    relay = api.relays.found().relays[database.name]
    asked = Asked(Caller("x", "token", "operate"), "127.0.0.1", "test", {})
    begun, on, elsewhere = Event(), Event(), Jobs()

    def steps() -> Any:
        for _ in range(3):
            begun.set()
            on.wait(60)
            yield Step("done")

    path = f"/relays/{database.name}/jobs"
    others = elsewhere.start(relay, asked, lambda catalog: in_steps(3, steps())).job
    refused(api.post(f"{path}/{others}/cancel"), 409, "another instance")
    own = api.jobs.start(relay, asked, lambda catalog: in_steps(3, steps())).job
    assert begun.wait(60)
    refused(api.post(f"{path}/{own}/cancel", scope="read"), 403, "operate")
    refused(api.post(f"{path}/999/cancel"), 404)
    assert api.post(f"{path}/{own}/cancel").status_code == 202
    on.set()
    elsewhere.close()
    found = wait_until(lambda: (job := api.get(f"{path}/{own}").json())["state"] != "running" and job, 60, "its end")
    assert (found["state"], found["counts"]) == ("interrupted", {"done": 1})
    assert found["hint"].startswith("cancelled by operate: ")
    refused(api.post(f"{path}/{own}/cancel"), 409, "it is interrupted")
    log = api.get(f"/relays/{database.name}/audit-log", scope="admin").json()["entries"]
    assert ("jobs.cancel", {"job": own}, "done") in [(each["action"], each["request"], each["outcome"]) for each in log]


def test_no_more_than_a_few_jobs_are_at_work(api: Api, database: Database) -> None:
    relay = api.relays.found().relays[database.name]
    asked = Asked(Caller("x", "token", "operate"), "127.0.0.1", "test", {})
    on, jobs = Event(), api.jobs

    def steps() -> Any:
        on.wait(60)
        yield Step("done")

    try:
        for _ in range(4):
            jobs.start(relay, asked, lambda catalog: in_steps(1, steps()))
        write(database, letter(1))
        path = f"/relays/{database.name}/dead-letters/replay"
        refused(api.post(path, {"select": {"everything": True}}), 429, "jobs are at work")
    finally:
        on.set()
    path = f"/relays/{database.name}/jobs"
    wait_until(lambda: [each["state"] for each in api.get(path).json()["jobs"]] == ["done"] * 4, 60, "the jobs to end")


def test_100_000_are_listed_in_pages_as_fast_as_ten(api: Api, database: Database) -> None:
    """By the plan: a page reads as many rows of the index as it shows, wherever it begins."""
    database.execute(
        "INSERT INTO walrelay.dead_letters (slot_name, commit_lsn, ordinal, record_id, sink, topic, status, error,"
        " reason, attempts) SELECT %s, ('0/' || to_hex(n))::pg_lsn, 0, n::text, 's', 't', 'waiting', 'poison', 'x', 1"
        " FROM generate_series(1, 100000) n",
        [database.name],
    )
    database.execute("ANALYZE walrelay.dead_letters")
    path = f"/relays/{database.name}/dead-letters"
    page = api.get(path, limit=10, after=f"0/{99_000:X}:0:0:99000").json()
    assert [each["id"] for each in page["dead_letters"]][:2] == ["99001", "99002"]
    plan = database.execute(
        "EXPLAIN (ANALYZE, FORMAT JSON) SELECT id FROM walrelay.dead_letters WHERE slot_name = %s AND"
        " status = ANY(ARRAY['waiting', 'blocked']) AND (commit_lsn, ordinal, number, id) > (%s::pg_lsn, 0, 0, 99000)"
        " ORDER BY commit_lsn, ordinal, number, id LIMIT 11",
        [database.name, f"0/{99_000:X}"],
    )
    assert "Seq Scan" not in json.dumps(plan)
    assert '"Node Type": "Index' in json.dumps(plan)
