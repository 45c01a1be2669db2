"""Logical messages with our prefix that are no events: who may write them stops no relay whose policy keeps them."""

import json
from base64 import b64decode
from typing import Any

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, header
from tests.acceptance.test_dead_letters import KEPT, letters
from tests.integration.relaying.ways import PGOUTPUT, WAYS, need
from tests.servers.database import Database
from tests.servers.topics import Kafka

READABLE = b'{"id": "m-1", "aggregate_type": "thing", "aggregate_id": "a", "payload": "message"}'
NUL = b'{"id": "m-2", "payload": "before the NUL"}\0and behind it'
POISON = {
    b"": "'{' expected",
    b"no JSON": "'{' expected",
    b'{"payload": 1}': "no id",
    b'{"event_id": "1", "body": 2}': "key 'event_id' is not a role",
    b'\xff\xfe"': "'{' expected",
    b'{"id": "1", "payload": ' + b"[" * 5000 + b"]" * 5000 + b"}": "it is nested too deeply",
    NUL: "there is more text after the JSON object",
}
CASES = [
    ("at_least_once", "text"),
    ("exactly_once", "binary"),
    ("exactly_once", "format1"),
    ("at_least_once", "format2"),
]


def emit(database: Database, *contents: bytes) -> None:
    """One transaction of logical messages, with a row before each and one at the end; their payloads are numbers."""
    with database.connect(autocommit=False) as connection:
        for number, content in enumerate(contents):
            connection.execute("SELECT walrelay.emit('thing', 'a', 'Happened', %s)", [str(number)])
            connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s::bytea)", [content])
        connection.execute("SELECT walrelay.emit('thing', 'a', 'Happened', '\"end\"')")


def sections(way: str, **others: Any) -> dict[str, Any]:
    return {"outbox": {"messages": {"prefix": "walrelay"}}, "source": WAYS[way], **others}


def values(deployment: Deployment) -> list[bytes | None]:
    return [message.value for message in deployment.delivered()]


@pytest.mark.parametrize(("delivery", "way"), CASES)
def test_a_message_that_cannot_be_read_is_a_dead_letter_with_its_bytes_and_all_others_arrive(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, delivery: str, way: str
) -> None:
    need(way, database.server)
    # wal2json ends the content at a NUL, and says nothing of it
    poison = [content for content in POISON if way in PGOUTPUT or content is not NUL]
    deployment = deploy(database, kafka, topic, **sections(way, refusals=KEPT, delivery=delivery))
    relay = deployment.start()
    emit(database, *poison)
    emit(database, poison[1], READABLE)
    deployment.catch_up()
    rows = [str(number).encode() for number in range(len(poison))]
    assert values(deployment) == [*rows, b'"end"', b"0", b"1", b'"message"', b'"end"']
    kept = letters(deployment)
    assert [content(letter) for letter in kept] == [*poison, poison[1]]
    for letter, why in zip(kept, map(POISON.__getitem__, map(content, kept)), strict=True):
        assert (letter["id"], letter["topic"], letter["key"], letter["record"], letter["message"]) == ("", *[None] * 4)
        assert (letter["status"], letter["error"], letter["attempts"]) == ("waiting", "undecodable", 1)
        assert f"the logical message at {letter['position']} is not an outbox record: " in letter["reason"]
        assert "(prefix 'walrelay')" in letter["reason"]
        assert why in letter["reason"]
    assert [int(letter["position"].partition(":")[2]) for letter in kept] == [*range(1, 2 * len(poison), 2), 1]
    told = relay.events("set aside")
    assert [(each["position"], each["error"]) for each in told] == [(each["position"], each["error"]) for each in kept]
    assert not relay.events("retrying")


def content(letter: dict[str, Any]) -> bytes:
    raw = letter["raw"]
    return raw.encode() if isinstance(raw, str) else b64decode(raw["base64"])


def test_the_commands_for_dead_letters_say_what_it_is_and_publish_nothing(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic, **sections("text", refusals=KEPT))
    relay = deployment.start()
    emit(database, b"\xff")
    deployment.catch_up()
    relay.stop()
    (letter,) = letters(deployment)
    number, reason = str(letter["letter"]), letter["reason"]
    listed = deployment.command("dlq", "list")
    assert f"no id for topic none, key none, refused 1 time: {reason}"[:150] in listed
    assert deployment.output("dlq", "show", number, "--value") == b"\xff\n"
    shown = deployment.said("dlq", "show", number)
    assert f"walrelay dlq discard --id {number}" in shown
    assert "dlq replay" not in shown
    refused = deployment.said("dlq", "replay", exit_code=1)
    assert reason in refused
    assert "1 dead letter was refused again" in refused
    (again,) = letters(deployment)
    assert (again["status"], again["error"], again["reason"]) == ("waiting", "undecodable", reason)
    assert "1 discarded" in deployment.command("dlq", "discard", "--id", number, "--reason", "a test", "--yes")
    assert values(deployment) == [b"0", b'"end"']


def test_exactly_once_and_with_a_topic_it_is_there_once_each_though_the_relay_is_killed(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    aside = kafka.create_topic()
    both = {**KEPT, "dead_letters": "both", "dead_letter_topic": aside}
    deployment = deploy(database, kafka, topic, **sections("text", refusals=both, delivery="exactly_once"))
    emit(database, b"\xff", b"no JSON", READABLE)
    relay = deployment.launch()
    relay.wait_for("set aside")
    relay.kill()
    deployment.start()
    emit(database, b"later")
    deployment.catch_up()
    assert values(deployment) == [b"0", b"1", b"2", b'"message"', b'"end"', b"0", b'"end"']
    poison = [b"\xff", b"no JSON", b"later"]
    messages = kafka.read_all(aside)
    assert [message.value for message in messages] == poison
    assert [content(letter) for letter in letters(deployment)] == poison
    assert [header(message, "dead_letter_error") for message in messages] == ["undecodable"] * 3
    assert [header(message, "position") for message in messages] == [each["position"] for each in letters(deployment)]
    kafka.delete_topics(aside)


def test_the_default_policy_counts_for_it_and_not_one_for_topics(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    """It has no topic. Skipped, it waits for nobody; where the policy is to stop, a pattern for any topic is none."""
    refusals = {"policy": "stop", "topics": {"*": "dead_letter"}}
    deployment = deploy(database, kafka, topic, **sections("text", refusals=refusals))
    emit(database, b"\xff")
    relay = deployment.start()
    assert relay.wait(30) == 1
    (fatal,) = relay.events("fatal")
    position = fatal["error"].split(" at ")[1].split()[0]
    assert "is not an outbox record" in fatal["error"]
    for way_out in (f"`walrelay skip --position {position}`", "`refusals: {policy: dead_letter}`"):
        assert way_out in fatal["hint"]
    deployment.write_settings(refusals={"policy": "skip"})
    deployment.start()
    deployment.catch_up()
    (letter,) = letters(deployment)
    assert (letter["status"], letter["closed_by"], letter["position"]) == ("skipped", "policy", position)
    assert json.loads(deployment.command("status", "--json"))["dead_letters"] == 0
    assert list(dict.fromkeys(values(deployment))) == [b"0", b'"end"']


@pytest.mark.parametrize(("delivery", "unroutable"), [("at_least_once", True), ("exactly_once", False)])
def test_where_letters_go_to_a_topic_too_one_that_is_too_large_for_it_goes_without_its_value(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, delivery: str, unroutable: bool
) -> None:
    aside = kafka.create_topic()
    both = {**KEPT, "dead_letters": "both", "dead_letter_topic": aside}
    deployment = deploy(database, kafka, topic, **sections("text", refusals=both, delivery=delivery))
    deployment.start()
    large = b"x" * 2_000_000
    if unroutable:
        large = b'"%s"' % large
        event = {"id": "m-1", "payload": json.loads(large), "headers": "none"}
        emit(database, json.dumps(event).encode())
    else:
        emit(database, large)
    deployment.catch_up()
    assert values(deployment) == [b"0", b'"end"']
    (letter,) = letters(deployment)
    assert letter["error"] == ("unroutable" if unroutable else "undecodable")
    (message,) = kafka.read_all(aside)
    assert (message.value, header(message, "position")) == (None, letter["position"])
    assert header(message, "dead_letter_value") is not None
    kafka.delete_topics(aside)
