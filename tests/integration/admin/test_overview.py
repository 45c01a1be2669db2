"""All relays at a glance, what they were in the last hours, and who is told when something changes."""

import json
from collections.abc import Callable
from typing import Any

from tests.integration.admin.conftest import ONE_RELAY, Api, MakeApi, refused, sections_of
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.admin.access import Caller
from walrelay.admin.activity import shown_activity
from walrelay.admin.overview import shown_overview
from walrelay.admin.watching import Overview, WatchedRelay
from walrelay.config.admin import AccessScope
from walrelay.control.asking import RelayActivity, activity_of
from walrelay.operations.overview import RelayGlance, SeenRelay, judged

NOWHERE = {"source": {"dsn": "postgresql://x:hunter2@127.0.0.1:1/x", "slot": "nowhere"}}


def of_stream(text: str) -> dict[str, Any]:
    """By event."""
    parts = [part.splitlines() for part in text.split("\n\n") if part.startswith("event: ")]
    return {name.removeprefix("event: "): json.loads(data.removeprefix("data: ")) for name, data in parts}


def seen(api: Api, what: str, condition: Callable[[dict[str, Any]], object], scope: str = "read") -> Any:
    """The relays of an overview, which may be two seconds old, once they are so; by name."""

    def look() -> dict[str, Any] | None:
        found = {each["name"]: each for each in api.get("/overview", scope=scope).json()["relays"]}
        return found if condition(found) else None

    return wait_until(look, 30, what)


def test_a_relay_that_nobody_leads_is_the_first_to_be_looked_at(make_api: MakeApi, database: Database) -> None:
    relays = {name: {"source": {"dsn": database.dsn, "slot": f"{database.name}_{name}"}} for name in "ab"}
    api = make_api(sink={"kind": "memory"}, relays=relays)
    database.execute(
        "INSERT INTO walrelay.relays (slot_name, name, paused, pause_reason) VALUES (%s, 'a', true, 'upgrade')",
        [f"{database.name}_a"],
    )
    first, second = seen(api, "the pause", lambda found: found["a"]["paused"]).values()
    assert (first["name"], first["level"], first["why"]) == ("b", "critical", "no instance leads it")
    assert (second["name"], second["level"]) == ("a", "warning")
    assert second["paused"]["reason"] == "upgrade"
    assert second["todo"] == "walrelay resume a"
    assert second["retained_bytes"] > 0
    assert second["dead_letters"] == 0


def test_a_relay_of_another_file_is_shown_and_cannot_be_asked(api: Api, database: Database) -> None:
    database.execute("INSERT INTO walrelay.relays (slot_name, name) VALUES ('theirs', 'theirs')")
    found = seen(api, "the relay of another file", lambda found: "theirs" in found)
    assert found["theirs"]["in_settings"] is False
    assert found[database.name]["in_settings"] is True
    refused(api.get("/relays/theirs/history"), 404, "there is no relay 'theirs'")


def test_a_caller_sees_its_own_relays_only(make_api: MakeApi, database: Database) -> None:
    relays = {name: {"source": {"dsn": database.dsn, "slot": f"{database.name}_{name}"}} for name in "ab"}
    api = make_api(sink={"kind": "memory"}, relays={**relays, "away": NOWHERE}, init=False)
    one = api.get("/overview", token=ONE_RELAY.token).json()
    assert [each["name"] for each in one["relays"]] == ["a"]
    assert one["problems"] == []
    assert api.get("/me", token=ONE_RELAY.token).json()["relays"] == ["a"]
    told = of_stream(api.get("/stream", token=ONE_RELAY.token, seconds=0).text)
    assert [each["name"] for each in told["overview"]["relays"]] == ["a"]
    refused(api.get("/stream", token=ONE_RELAY.token, relay="b", seconds=0), 404, "there is no relay 'b'")


def test_a_database_that_is_away_is_told_and_holds_up_no_other(make_api: MakeApi, database: Database) -> None:
    relays = {"here": {"source": {"dsn": database.dsn, "slot": database.name}}, "away": NOWHERE}
    api = make_api(sink={"kind": "memory"}, relays=relays, init=False)
    answer = api.get("/overview")
    found = {each["name"]: each for each in answer.json()["relays"]}
    assert found["away"]["state"] == "unknown"
    assert found["away"]["level"] == "critical"
    assert found["here"]["state"] == "no slot"
    (problem,) = answer.json()["problems"]
    assert problem["database"] == "127.0.0.1:1/x"
    assert "hunter2" not in answer.text


def test_an_error_that_may_quote_an_event_takes_the_scope_operate(api: Api, database: Database) -> None:
    database.execute(
        "INSERT INTO walrelay.relays (slot_name, name, state, last_error, updated_at)"
        " VALUES (%s, 'x', 'failed', 'row 7 says hunter2', now())",
        [database.name],
    )
    seen(
        api,
        "the error",
        lambda found: found[database.name]["level"] == "critical" and found[database.name]["updated_at"],
    )
    assert "hunter2" not in api.get("/overview").text
    assert "hunter2" not in api.get("/stream", seconds=0).text
    assert "hunter2" in api.get("/overview", scope="operate").text


ASKERS: tuple[tuple[AccessScope, bool], ...] = (("read", False), ("operate", True))


def test_what_a_sink_said_takes_the_scope_operate_too() -> None:
    quote = "row 7 says hunter2"
    said = {"by": "sink", "since": 0.0, "why": quote}
    numbers = {name: 0 for name, kind in RelayActivity.__annotations__.items() if kind in (int, float)}
    live = activity_of({**numbers, "slot": "s", "instance": "i", "state": "streaming", "stalled": said})
    seen = RelayGlance("orders", "orders", "streaming", "db:1", "0/1", 0, 7.0, 0, None, None, "2026-11-24", False)
    look = SeenRelay(seen, judged(seen, None, quote), live, None, None, None, None)
    for scope, told in ASKERS:
        caller = Caller("somebody", "token", scope)
        found = shown_overview(Overview(0.0, [WatchedRelay("db", look, None)], []), caller).relays[0].why
        assert found.startswith("the oldest event has waited for 7 s")
        assert ("hunter2" in found) is told
        assert ("hunter2" in shown_activity(live, operates=told).model_dump_json()) is told


def test_the_last_minutes_are_there_as_long_as_the_process_has_looked(api: Api, database: Database) -> None:
    api.get("/overview")
    part = api.get(f"/relays/{database.name}/history", minutes=5).json()
    assert part["step_seconds"] == 15
    assert len(part["at"]) == len(part["series"]["retained_bytes"]) >= 1
    assert part["series"]["retained_bytes"][-1] > 0
    assert part["series"]["published_per_second"][-1] is None


def test_who_watches_is_told_of_a_change_and_of_jobs(api: Api, database: Database) -> None:
    told = of_stream(api.get("/stream", relay=database.name, seconds=0).text)
    assert told.keys() == {"overview", "jobs"}
    assert told["jobs"]["jobs"] == []
    changes = list[int]()
    with api.watch.watching(lambda: changes.append(1)):
        wait_until(lambda: len(changes) >= 2, 30, "two looks while somebody watches")


def test_however_many_ask_a_database_is_looked_at_once_a_second(api: Api, database: Database) -> None:
    looks = list[int]()
    with api.watch.watching(lambda: looks.append(1)):
        answers = [api.get("/overview").json() for _ in range(40)]
    assert all(answer["relays"][0]["slot"] == database.name for answer in answers)
    assert len(looks) <= 1 + len({answer["at"] for answer in answers})


def test_a_server_without_the_table_of_relays_is_looked_at_all_the_same(api: Api, database: Database) -> None:
    database.execute("DROP TABLE walrelay.relays")
    relay = seen(api, "a look without it", lambda found: found[database.name]["state"] == "not started")[database.name]
    assert relay["slot"] == database.name


def test_streams_end_when_the_process_leaves(make_api: MakeApi, database: Database) -> None:
    api = make_api(**sections_of(database))
    api.watch.leave()
    assert api.get("/stream").status_code == 200  # and it has ended
