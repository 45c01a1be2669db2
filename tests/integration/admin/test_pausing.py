"""Pauses by way of the admin API: whose they are, what they cost, and the log of them."""

from typing import Any

import pytest

from tests.integration.admin.conftest import Api, refused
from tests.servers.database import Database


def row(database: Database, columns: str) -> tuple[Any, ...]:
    (found,) = database.execute(f"SELECT {columns} FROM walrelay.relays WHERE slot_name = %s", [database.name])
    return tuple(found)


def entries(api: Api, database: Database) -> list[tuple[str, str | None]]:
    log = api.get(f"/relays/{database.name}/audit-log", scope="admin").json()["entries"]
    return [(each["action"], each["outcome"]) for each in log]


def test_a_pause_is_its_callers_and_says_what_it_costs(api: Api, database: Database) -> None:
    path = f"/relays/{database.name}"
    refused(api.post(f"{path}/pause", {"reason": "x"}, scope="read"), 403, "operate")
    asked = {"reason": "the warehouse is upgraded", "for_seconds": 3600, "limit_bytes": 2**30}
    answer = api.post(f"{path}/pause", asked)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["pause"] | {"at": "", "until": ""} == {
        "reason": "the warehouse is upgraded",
        "by": "operate",
        "at": "",
        "until": "",
        "limit_bytes": 2**30,
        "at_limit": "resume",
    }
    assert told["paused"].startswith("by operate: the warehouse is upgraded; until ")
    assert told["cost"]["retained_bytes"] >= 0
    assert told["cost"]["bytes_per_minute"] >= 0
    assert told["cost"]["led"] is False
    assert api.get(f"{path}/pause-cost").json().keys() == told["cost"].keys()
    assert row(database, "paused, paused_by, paused_until > now() + interval '59 minutes'") == (True, "operate", True)
    assert api.post(f"{path}/resume").json() == {"was_paused": True, "led": False, "disobeyed": ""}
    assert api.post(f"{path}/resume").json() == {"was_paused": False, "led": False, "disobeyed": ""}
    assert row(database, "paused, paused_by") == (False, None)
    assert entries(api, database) == [
        *[("resume", "done"), ("resume", None)] * 2,
        *[("pause", "done"), ("pause", None)],
    ]


def test_wal_that_is_written_shows_in_the_cost(api: Api, database: Database) -> None:
    path = f"/relays/{database.name}/pause-cost"
    before = api.get(path).json()
    database.execute("SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000000))")
    after = api.get(path).json()
    assert after["retained_bytes"] >= before["retained_bytes"] + 1_000_000
    assert after["bytes_per_minute"] > 900_000


def test_giving_the_slot_up_takes_the_scope_admin(api: Api, database: Database) -> None:
    path, asked = f"/relays/{database.name}/pause", {"limit_bytes": 2**40, "at_limit": "drop_slot"}
    refused(api.post(path, asked), 403, "admin", "cannot be taken back")
    assert database.execute("SELECT slot_name FROM walrelay.relays WHERE paused") == []
    assert api.post(path, asked, scope="admin").json()["pause"]["at_limit"] == "drop_slot"


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"for_seconds": 5, "until": "2099-01-01T00:00:00Z"}, 422, "not both"),
        ({"at_limit": "drop_slot"}, 422, "limit_bytes"),
        ({"until": "2099-01-01T00:00:00"}, 422, "until"),
        ({"until": "2001-01-01T00:00:00Z"}, 409, "over already"),
        ({"reason": "x\0"}, 422, "reason"),
        ({"for_seconds": 1e300}, 422, "for_seconds"),
    ],
)
def test_a_pause_that_may_not_be_meant_is_none(
    api: Api, database: Database, asked: dict[str, Any], status: int, said: str
) -> None:
    refused(api.post(f"/relays/{database.name}/pause", asked, scope="admin"), status, said)
    assert database.execute("SELECT slot_name FROM walrelay.relays WHERE paused") == []


def test_what_keeps_a_relay_from_being_paused_is_said(api: Api, database: Database) -> None:
    database.execute("DROP TABLE walrelay.relays")
    refused(api.post(f"/relays/{database.name}/pause", {}), 409, "no table walrelay.relays", "walrelay init")
    refused(api.post(f"/relays/{database.name}/resume"), 409, "no table walrelay.relays")
    database.execute("SELECT pg_drop_replication_slot(%s)", [database.name])
    refused(api.get(f"/relays/{database.name}/pause-cost"), 409, "does not exist", "walrelay doctor")
