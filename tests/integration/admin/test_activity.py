"""What the admin API says of a relay that runs: its live numbers, and the last events."""

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from tests.integration.admin.conftest import Api, MakeApi, refused, sections_of
from tests.integration.admin.test_overview import of_stream
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.config import load
from walrelay.observe import Observers
from walrelay.supervise import Stop


@pytest.fixture
def api(make_api: MakeApi, database: Database) -> Iterator[Api]:
    """A relay that runs, which has published two events."""
    made = make_api(**sections_of(database, events={"payloads": True, "redact": {"*card*": []}}))
    stop = Stop()
    relay = Thread(target=compose.relay_until, args=(stop, compose.wiring(load(made.config)), Observers()))
    relay.start()
    row = "INSERT INTO public.outbox (aggregate_type, aggregate_id, type, payload) VALUES (%s, %s, 'Placed', %s)"
    database.execute(row, ["order", "k1", '{"total": 7}'])
    database.execute(row, ["card", "k2", '{"number": 4711}'])
    try:
        wait_until(lambda: told(made, database, "events") == 2, 60, "both events to be told")
        yield made
    finally:
        stop.set()
        relay.join(60)


def told(api: Api, database: Database, path: str) -> int:
    answer = api.get(f"/relays/{database.name}/{path}")
    return answer.status_code == 200 and sum(each["confirmed_at"] is not None for each in answer.json()["events"])


def test_a_relay_that_runs_says_what_it_does_and_did(api: Api, database: Database) -> None:
    path = f"/relays/{database.name}"
    numbers = api.get(f"{path}/activity").json()
    expected = {"slot": database.name, "state": "streaming", "records": 2, "published": 2, "in_flight": 0, "kept": 2}
    assert expected.items() <= numbers.items()
    assert {each["topic"]: each["messages"] for each in numbers["topics"]} == {
        "outbox.event.order": 1,
        "outbox.event.card": 1,
    }
    shown = api.get(f"{path}/events", scope="operate").json()
    assert (shown["kept"], shown["instance"], shown["since"]) == (2, numbers["instance"], numbers["since"])
    assert [(each["key"], each["payload"]) for each in shown["events"]] == [("k2", "***"), ("k1", '{"total": 7}')]
    assert [each["type"] for each in shown["events"]] == ["Placed"] * 2

    def ids(**wanted: Any) -> list[str]:
        return [each["id"] for each in api.get(f"{path}/events", scope="operate", **wanted).json()["events"]]

    second, first = ids()
    assert ids(limit=1) == [second]
    assert ids(topic="*.order") == ids(id=first) == ids(key="k1") == [first]
    assert ids(topic="*.order", key="k2") == []


def test_the_overview_has_rates_and_the_stream_the_events(api: Api, database: Database) -> None:
    def relay() -> Any:
        (found,) = api.get("/overview").json()["relays"]
        return found if found["published_per_second"] is not None else None

    found = wait_until(relay, 30, "two answers of the leader")
    assert found["level"] == "ok"
    assert found["state"] == "streaming"
    assert found["in_flight"] == 0
    row = "INSERT INTO public.outbox (aggregate_type, aggregate_id, type) VALUES ('order', 'k3', 'Paid')"

    def flows() -> bool:
        database.execute(row)
        return bool(relay()["published_per_second"])

    wait_until(flows, 30, "a rate above 0")
    history = api.get(f"/relays/{database.name}/history", minutes=5).json()["series"]
    assert max(filter(None, history["published_per_second"])) > 0
    told = of_stream(api.get("/stream", scope="operate", relay=database.name, seconds=0).text)
    assert told["activity"]["published"] >= 3
    assert told["events"]["events"][-1]["key"] == "k1"
    hidden = of_stream(api.get("/stream", relay=database.name, seconds=0).text)
    assert {each["key"] for each in hidden["events"]["events"]} == {None}


def test_keys_and_payloads_take_the_scope_operate(api: Api, database: Database) -> None:
    answer = api.get(f"/relays/{database.name}/events")
    assert [(each["key"], each["payload"]) for each in answer.json()["events"]] == [(None, None)] * 2
    assert "total" not in answer.text
    refused(api.get(f"/relays/{database.name}/events", key="k1"), 403, "operate")


def test_where_nobody_answers_it_says_what_to_do(make_api: MakeApi, database: Database) -> None:
    api = make_api(**sections_of(database))
    for path in ("activity", "events"):
        refused(api.get(f"/relays/{database.name}/{path}"), 409, "no instance leads", "walrelay run")
    database.execute("DROP TABLE walrelay.activity")
    wait_until(lambda: "walrelay init" in api.get(f"/relays/{database.name}/activity").text, 10, "the next question")
    refused(api.get(f"/relays/{database.name}/activity"), 409, "walrelay init")
