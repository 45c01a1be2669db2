"""Routing rules in the installed command: from rows to the topics of a real Kafka, and what `route test` says."""

import json
from typing import Any

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, event_id, header
from tests.servers.database import Database
from tests.servers.topics import Kafka

ROUTES: list[dict[str, Any]] = [
    {"name": "copy", "when": {"payload.vip": True}, "payload": {"redact": ["email"]}, "continue": True},
    {"name": "noise", "when": {"payload.n": 3}, "drop": True},
    {"name": "others", "when": {"payload.n": {"exists": True}}},
]


@pytest.fixture
def routed(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    copy = {**ROUTES[0], "topic": f"{topic}.{{payload.tier|kebab}}"}
    return deploy(database, kafka, topic, routes=[copy, *ROUTES[1:]])


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


@pytest.mark.parametrize("policy", ["stop", "dead_letter", "skip"])
def test_the_policy_says_what_becomes_of_a_record_that_no_rule_matches(routed: Deployment, policy: str) -> None:
    routed.write_settings(refusals={"policy": policy})
    relay = routed.launch()
    ids = [routed.write(payload)[0] for payload in ('{"n": 1}', '{"secret": "x"}', '{"n": 2}')]
    if policy == "stop":
        assert relay.wait() == 1
        (end,) = relay.events("fatal")
        assert f"no rule matches record {ids[1]} at " in end["error"]
        assert "others: payload.n is missing" in end["error"]
        assert routed.delivered_ids() == ids[:1]
        return
    routed.catch_up()
    assert routed.delivered_ids() == [ids[0], ids[2]]
    (letter,) = map(json.loads, routed.command("dlq", "list", "--all", "--json").splitlines())
    status = "waiting" if policy == "dead_letter" else "skipped"
    assert (letter["id"], letter["status"], letter["error"]) == (ids[1], status, "unroutable")


def test_relay_find_and_route_test_agree_on_a_payload_of_any_depth(routed: Deployment) -> None:
    routed.write_settings(refusals={"policy": "dead_letter"}, routes=[*ROUTES[:-1], {"name": "rest", "drop": True}])
    routed.start()
    depths = [2, 500, 501, 960, 1_200, 3_000]
    ids = [routed.write(f'{{"n": 3, "a": {"[" * (depth - 1)}{"]" * (depth - 1)}}}')[0] for depth in depths]
    routed.catch_up()
    assert routed.delivered_ids() == []
    found = {
        each["id"]: each["state"] for each in json.loads(routed.command("find", *ids, "--json", exit_code=None))["rows"]
    }
    tried = [
        json.loads(line) for line in routed.command("route", "test", "--rows", "9", "--json", exit_code=1).splitlines()
    ]
    assert [found[id_] for id_ in ids] == ["dropped"] * 2 + ["dead_letter"] * 4
    assert {each["id"]: each["dropped"] for each in tried} == {id_: state == "dropped" for id_, state in found.items()}
    letters = [json.loads(line)["reason"] for line in routed.command("dlq", "list", "--json").splitlines()]
    assert all("payload cannot be read: it is nested too deeply" in reason for reason in letters)


def test_a_dead_letter_is_replayed_as_all_that_the_rules_make_of_it_now(routed: Deployment) -> None:
    routed.write_settings(refusals={"policy": "dead_letter"})
    routed.start()
    kept, unwanted = (routed.write(payload)[0] for payload in ("{}", '{"unwanted": 1}'))
    routed.catch_up()
    copies = routed.kafka.create_topic(f"{routed.topic}.copies")
    routes = [
        {"name": "unwanted", "when": {"payload.unwanted": {"exists": True}}, "drop": True},
        {"name": "copies", "topic": copies, "continue": True},
        {"name": "all"},
    ]
    routed.write_settings(routes=routes)
    routed.command("dlq", "replay", "--id", kept)
    assert [event_id(message) for message in routed.kafka.read_all(copies)] == routed.delivered_ids() == [kept]
    assert "1 refused again" in routed.command("dlq", "replay", "--id", unwanted, exit_code=1)
    assert "today's rules give no message for it" in routed.command("dlq", "list")
