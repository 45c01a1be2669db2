"""Routing rules in the installed command: from rows to the topics of a real Kafka, and what `route test` says."""

import json
from typing import Any

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, header
from tests.servers.database import Database
from tests.servers.topics import Kafka


@pytest.fixture
def routed(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    routes: list[dict[str, Any]] = [
        {
            "name": "copy",
            "when": {"payload.vip": True},
            "topic": f"{topic}.{{payload.tier|kebab}}",
            "payload": {"redact": ["email"]},
            "continue": True,
        },
        {"name": "noise", "when": {"payload.n": 3}, "drop": True},
        {"name": "others", "when": {"payload.n": {"exists": True}}},
    ]
    return deploy(database, kafka, topic, routes=routes)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_records_go_where_the_rules_say(routed: Deployment, delivery: str) -> None:
    routed.write_settings(delivery=delivery)
    gold = routed.kafka.create_topic(f"{routed.topic}.gold-plus")
    relay = routed.start()
    routed.write('{"n": 1}', '{"n": 2, "vip": true, "tier": "GoldPlus", "email": "a@b"}', '{"n": 3}', '{"n": 4}')
    routed.catch_up()
    relay.stop()
    assert [json.loads(message.value or b"")["n"] for message in routed.delivered()] == [1, 2, 4]
    (copy,) = routed.kafka.read_all(gold)
    assert json.loads(copy.value or b"") == {"n": 2, "vip": True, "tier": "GoldPlus", "email": None}
    assert header(copy, "position") == header(routed.delivered()[1], "position")
    assert relay.events("dropped by a rule")[0]["rule"] == "noise"


def test_route_test_shows_what_becomes_of_rows_and_of_what_waits(routed: Deployment) -> None:
    routed.write('{"n": 1, "vip": true, "tier": "x"}', '{"n": 3}', "{}")
    before = routed.slot.confirmed
    for where in ("--rows", "--slot"):
        lines = routed.command("route", "test", where, "3", "--json", exit_code=1).splitlines()
        first, second, third = sorted(map(json.loads, lines), key=lambda each: len(each["messages"]), reverse=True)
        assert [message["topic"] for message in first["messages"]] == [f"{routed.topic}.x", routed.topic]
        dropped, refused = (second, third) if second["dropped"] else (third, second)
        assert dropped["rules"][1] == {"rule": "noise", "matches": True}
        assert "no rule matches record" in refused["refused"]
    assert routed.slot.confirmed == before
