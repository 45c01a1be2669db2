"""Poison messages under the policy dead_letter: kept whole, named, replayed; everything else arrives, in order."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment, event_id, header
from tests.acceptance.test_refusals import SOON, configure, text_of
from tests.conftest import KafkaMaker
from tests.servers.database import Database
from tests.servers.topics import Kafka, Received

KEPT: dict[str, Any] = {"policy": "dead_letter"}


def letters(deployment: Deployment, *arguments: str) -> list[dict[str, Any]]:
    """The dead letters, whole."""
    return [json.loads(line) for line in deployment.command("dlq", "export", *arguments).splitlines()]


def ids(messages: list[Received]) -> list[str]:
    """Of first deliveries."""
    return list(dict.fromkeys(map(event_id, messages)))


def first_deliveries(deployment: Deployment, *topics: str) -> list[str]:
    return ids(deployment.kafka.read_all(*(topics or (deployment.topic,))))


@pytest.fixture
def small_topic(kafka: Kafka) -> str:
    return kafka.create_topic(config={"max.message.bytes": "20000"})


@pytest.mark.parametrize("limit", ["the client's", "the topic's"])
def test_a_message_that_is_too_large_is_set_aside_and_replayed_when_the_limit_is_raised(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str, limit: str
) -> None:
    size = 1_200_000 if limit == "the client's" else 30_000
    deployment = deploy(database, kafka, small_topic, refusals=KEPT)
    relay = deployment.start()
    before, poison, after = deployment.write("1", text_of(size), "2")
    deployment.catch_up()
    assert first_deliveries(deployment) == [before, after]
    (letter,) = letters(deployment)
    assert (letter["id"], letter["status"], letter["error"], letter["topic"]) == (
        poison,
        "waiting",
        "too_large",
        small_topic,
    )
    assert letter["message"]["value"] == letter["record"]["payload"] == text_of(size)
    assert letter["attempts"] == 1
    (told,) = relay.events("set aside")
    assert (told["id"], told["position"], told["topic"]) == (poison, letter["position"], small_topic)
    assert json.loads(deployment.command("status", "--json"))["dead_letters"] == 1
    configure(kafka, small_topic, {"max.message.bytes": "3000000"})
    deployment.write_settings(sink={"options": {"message.max.bytes": 2_000_000}})
    assert "1 replayed" in deployment.command("dlq", "replay")
    replayed = deployment.delivered()[-1]
    assert (event_id(replayed), header(replayed, "position"), header(replayed, "replayed"), replayed.key) == (
        poison,
        letter["position"],
        "true",
        b"a",
    )
    (closed,) = letters(deployment)
    assert closed["status"] == "replayed"
    assert closed["closed_by"]
    assert "0 replayed" in deployment.command("dlq", "replay")
    kafka.delete_topics(small_topic)


def test_a_message_that_is_too_large_is_edited_and_the_consumer_gets_it_as_edited(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str, tmp_path: Path
) -> None:
    deployment = deploy(database, kafka, small_topic, refusals=KEPT)
    relay = deployment.start()
    before, poison = deployment.write("1", text_of(30_000))
    deployment.catch_up()
    (letter,) = letters(deployment)
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps({**letter["record"], "payload": {"image": "bucket/1.png"}}))
    told = deployment.command("dlq", "edit", poison, "--file", str(edited), "--reason", "too large", "--yes")
    assert '+    "image": "bucket/1.png"' in told
    assert first_deliveries(deployment) == [before], "an edit alone publishes nothing"
    relay.kill()
    deployment.start()
    assert "1 replayed" in deployment.command("dlq", "replay")
    assert "0 replayed" in deployment.command("dlq", "replay")
    (after,) = deployment.write("2")
    deployment.catch_up()
    messages = [message for message in deployment.delivered() if event_id(message) == poison]
    assert [message.value for message in messages] == [b'{"image": "bucket/1.png"}']
    assert (header(messages[0], "position"), messages[0].key) == (letter["position"], b"a")
    assert first_deliveries(deployment) == [before, poison, after]
    (kept,) = letters(deployment)
    assert (kept["status"], kept["edit_reason"], kept["record"]) == ("replayed", "too large", letter["record"])
    assert kept["edited_record"]["payload"] == '{"image": "bucket/1.png"}'
    kafka.delete_topics(small_topic)


def test_the_messages_of_a_topic_that_is_not_there_are_set_aside_and_replayed_once_it_is(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    unknown = f"{topic}-unknown"
    deployment = deploy(database, kafka, topic, refusals=KEPT, sink={"options": SOON})
    deployment.start()
    lost = deployment.write(*map(str, range(20)), topic=unknown)
    (arrived,) = deployment.write("1")
    deployment.catch_up()
    assert first_deliveries(deployment) == [arrived]
    kept = letters(deployment)
    assert [letter["id"] for letter in kept] == lost
    assert {letter["error"] for letter in kept} == {"unknown_topic"}
    kafka.create_topic(unknown)
    deployment.command("dlq", "replay", "--error", "unknown_topic")
    assert first_deliveries(deployment, unknown) == lost
    kafka.delete_topics(unknown)


def test_a_topic_that_walrelay_may_not_write_costs_one_refusal_and_not_one_for_each_message(
    deploy: Deploy, database: Database, private_kafka: KafkaMaker
) -> None:
    broker = private_kafka(users={"relay": "secret"})
    allowed, forbidden = broker.create_topic(), broker.create_topic()
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE):
        broker.allow("relay", operation, allowed)
    options = {name: value for name, value in broker.client_settings("relay").items() if name != "bootstrap.servers"}
    deployment = deploy(database, broker, allowed, refusals=KEPT, sink={"options": {**options, **SOON}})
    relay = deployment.start()
    lost = deployment.write(*map(str, range(50)), topic=forbidden)
    (arrived,) = deployment.write("1")
    deployment.catch_up()
    assert first_deliveries(deployment) == [arrived]
    kept = letters(deployment)
    assert [letter["id"] for letter in kept] == lost
    assert {letter["error"] for letter in kept} == {"not_authorized"}
    assert sum(letter["attempts"] for letter in kept) <= 3
    assert len(relay.events("retrying")) <= 3
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE):
        broker.allow("relay", operation, forbidden)
    deployment.command("dlq", "replay", "--topic", forbidden)
    assert first_deliveries(deployment, forbidden) == lost


@pytest.mark.parametrize(("delivery", "poison"), [("at_least_once", 1000), ("exactly_once", 200)])
def test_a_burst_of_poison_messages_does_not_hold_the_others_up_for_minutes(
    deploy: Deploy,
    database: Database,
    kafka: Kafka,
    small_topic: str,
    measured: Measured,
    delivery: str,
    poison: int,
) -> None:
    """A run for each of them would take a third of a second: five minutes for a thousand."""
    deployment = deploy(database, kafka, small_topic, refusals=KEPT, delivery=delivery)
    database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)"
        " SELECT 'thing', mod(n, 50), 'Happened', to_jsonb(repeat('x', CASE mod(n, 2) WHEN 0 THEN 30000 ELSE 10 END))"
        " FROM generate_series(1, 2 * %s) n",
        [poison],
    )
    begun = time.monotonic()
    deployment.start()
    deployment.catch_up(60)
    seconds = round(time.monotonic() - begun, 1)
    measured(f"{delivery}: seconds for {poison} poison messages and as many others", seconds)
    assert len(first_deliveries(deployment)) == poison
    kept = database.execute("SELECT count(*), count(DISTINCT record_id) FROM walrelay.dead_letters")
    assert kept == [(poison, poison)]
    kafka.delete_topics(small_topic)


def test_a_row_that_no_rule_routes_is_set_aside_and_replayed_by_corrected_rules(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic, refusals=KEPT, route={"topic": "{tenant_id}"})
    relay = deployment.start()
    (lost,) = deployment.write("1")
    (arrived,) = deployment.write("2", topic=topic)
    deployment.catch_up()
    assert first_deliveries(deployment) == [arrived]
    (letter,) = letters(deployment)
    assert (letter["id"], letter["error"], letter["topic"], letter["message"]) == (lost, "unroutable", None, None)
    assert not relay.events("retrying")
    deployment.write_settings(route={"topic": topic})
    deployment.command("dlq", "replay", "--id", lost)
    assert first_deliveries(deployment) == [arrived, lost]


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_dead_letters_are_found_by_their_tenant_although_routing_does_not_need_it(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str, delivery: str
) -> None:
    deployment = deploy(database, kafka, small_topic, refusals=KEPT, delivery=delivery)
    deployment.start()
    tenants = ("acme", "globex", None, "acme", "initech")
    emitted = "SELECT walrelay.emit('thing', 'a', 'Happened', %s::jsonb, tenant_id => %s)::text"
    ids = [database.execute(emitted, [text_of(30_000), tenant])[0][0] for tenant in tenants]
    deployment.catch_up()
    forget = "UPDATE walrelay.dead_letters SET record = replace(record::text, %s, %s)::json"
    database.execute(forget, ['"tenant_id": "acme", "created_at"', '"tenant_id": null, "created_at"'])  # as long ago
    database.execute("DELETE FROM outbox WHERE id = ANY (%s::uuid[])", [[ids[1], ids[3]]])
    assert [letter["id"] for letter in letters(deployment, "--tenant", "globex")] == [ids[1]], "of a row that is gone"
    assert [letter["id"] for letter in letters(deployment, "--tenant", "acme")] == [ids[0]]
    both = ("--tenant", "acme", "--tenant", "initech", "--limit", "2")
    assert [letter["id"] for letter in letters(deployment, *both)] == [ids[0], ids[4]]
    assert deployment.said("dlq", "list", "--tenant", "acme") == (
        "left out: 1 dead letter whose tenant is not known: not readable, or the row is gone\n"
    )
    discard = ("dlq", "discard", "--tenant", "acme", "--tenant", "nobody", "--reason", "a test", "--yes")
    assert deployment.command(*discard) == "1 discarded\n"
    configure(kafka, small_topic, {"max.message.bytes": "40000"})
    replayed = deployment.command("dlq", "replay", "--tenant", "globex")
    assert replayed == "1 replayed, 0 refused again, 0 left as they are\n"
    assert first_deliveries(deployment) == [ids[1]]
    kafka.delete_topics(small_topic)


def test_dead_letters_go_to_a_topic_of_their_own_as_well(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str, topic: str
) -> None:
    both = {**KEPT, "dead_letters": "both", "dead_letter_topic": topic}
    deployment = deploy(database, kafka, small_topic, refusals=both, route={"topic": "{tenant_id}"})
    deployment.start()
    (large,) = deployment.write(text_of(30_000), topic=small_topic)
    (unrouted,) = deployment.write("1")
    deployment.catch_up()
    found = {event_id(message): message for message in kafka.read_all(topic)}
    assert found.keys() == {large, unrouted}
    assert header(found[large], "dead_letter_error") == "too_large"
    assert header(found[large], "dead_letter_topic") == small_topic
    assert found[large].value is None, "it would be too large here as well"
    assert header(found[unrouted], "dead_letter_error") == "unroutable"
    assert found[unrouted].value == b"1"
    assert [letter["id"] for letter in letters(deployment)] == [large, unrouted]
    kafka.delete_topics(small_topic)


def test_later_messages_of_a_key_wait_behind_its_dead_letter_and_follow_it_in_order(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str
) -> None:
    deployment = deploy(database, kafka, small_topic, refusals={**KEPT, "block_key": True})
    deployment.start()
    poison, *behind = deployment.write(text_of(30_000), "2", "3")
    others = deployment.write("1", "2", key="b")
    deployment.catch_up()
    later = deployment.write("4")
    deployment.catch_up()
    assert first_deliveries(deployment) == others
    assert [(letter["id"], letter["status"]) for letter in letters(deployment)] == [
        (poison, "waiting"),
        *((event, "blocked") for event in behind + later),
    ]
    configure(kafka, small_topic, {"max.message.bytes": "40000"})
    assert "4 replayed" in deployment.command("dlq", "replay", "--id", poison)
    live = deployment.write("5")
    deployment.catch_up()
    assert first_deliveries(deployment) == [*others, poison, *behind, *later, *live]
    kafka.delete_topics(small_topic)


def test_a_policy_of_a_topics_own_is_followed(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str, topic: str
) -> None:
    """Skipped here, and for everything else the relay stops."""
    deployment = deploy(database, kafka, topic, refusals={"topics": {f"{small_topic[:-1]}*": "skip"}})
    relay = deployment.start()
    (skipped,) = deployment.write(text_of(30_000), topic=small_topic)
    deployment.catch_up()
    (letter,) = letters(deployment)
    assert (letter["id"], letter["status"], letter["closed_by"]) == (skipped, "skipped", "policy")
    assert json.loads(deployment.command("status", "--json"))["dead_letters"] == 0
    (stops,) = deployment.write(text_of(1_200_000))
    assert relay.wait(30) == 1
    (fatal,) = relay.events("fatal")
    assert f"record {stops} at " in fatal["error"]
    kafka.delete_topics(small_topic)


def test_a_discarded_letter_says_who_discarded_it_when_and_why(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic, refusals=KEPT)
    deployment.start()
    deployment.write(text_of(1_200_000), text_of(1_200_001))
    deployment.catch_up()
    first, _ = letters(deployment)
    assert "1 open dead letter would be discarded" in deployment.command(
        *("dlq", "discard", "--id", first["id"], "--reason", "a test", "--dry-run")
    )
    assert deployment.command("dlq", "discard", "--id", first["id"], "--reason", "a test", "--yes") == "1 discarded\n"
    discarded, waiting = letters(deployment)
    assert (discarded["status"], discarded["closed_why"], waiting["status"]) == ("discarded", "a test", "waiting")
    assert discarded["closed_by"]
    assert discarded["closed_at"]
    assert deployment.command("dlq", "list", "--status", "discarded").count(first["id"]) == 1


@pytest.mark.parametrize("turn", range(3))
def test_kill_9_around_a_dead_letter_leaves_it_there_exactly_once_and_loses_nothing(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str, turn: int
) -> None:
    """The first time it dies of the very insert; then as soon as the letter is there; then a little later."""
    deployment = deploy(database, kafka, small_topic, refusals=KEPT)
    events = deployment.write(*(text_of(30_000) if n % 10 == 0 else str(n) for n in range(100)))
    relay = deployment.launch()
    expected = 1 + turn * 4
    while database.execute("SELECT count(*) FROM walrelay.dead_letters")[0][0] < expected:
        assert relay.running
    relay.kill()
    deployment.start()
    deployment.catch_up()
    kept = [letter["id"] for letter in letters(deployment)]
    assert kept == events[::10]
    assert first_deliveries(deployment) == [event for event in events if event not in kept]
    kafka.delete_topics(small_topic)


def test_a_row_that_cannot_be_read_is_passed_over_when_the_operator_names_it_and_nothing_else_is(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    """guarantees A46, D18: never to the current position, never by itself, and it prints what it skips."""
    deployment = deploy(database, kafka, topic)
    database.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey, ALTER id DROP NOT NULL")
    (first,) = deployment.write("1")
    database.execute(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload) VALUES (gen_random_uuid(), 'x', 'a', 'y',"
        " '\"read\"'), (NULL, 'x', 'a', 'y', '\"lost\"'), (gen_random_uuid(), 'x', 'a', 'y', '\"read too\"')"
    )
    (last,) = deployment.write("2")
    relay = deployment.launch()
    assert relay.wait(30) == 1
    (fatal,) = relay.events("fatal")
    position = fatal["error"].split(" at ")[1].split()[0]
    assert position.endswith(":1")
    printed = deployment.command("skip", "--position", position, "--reason", "a test", "--yes")
    assert '"lost"' in printed
    again = deployment.start()
    deployment.catch_up()
    values = dict.fromkeys(message.value for message in deployment.delivered())
    assert list(values) == [b"1", b'"read"', b'"read too"', b"2"]
    assert again.wait_for("skipped", containing=position)
    (letter,) = letters(deployment)
    assert (letter["position"], letter["status"], letter["error"]) == (position, "skipped", "undecodable")
    assert "a test" in letter["reason"]
    assert letter["raw"]
    assert {first, last} <= set(deployment.delivered_ids())


def test_in_exactly_once_mode_a_poison_message_and_its_dead_letter_are_there_once_each(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str, topic: str
) -> None:
    both = {**KEPT, "dead_letters": "both", "dead_letter_topic": topic}
    deployment = deploy(database, kafka, small_topic, refusals=both, delivery="exactly_once")
    events = deployment.write("1", text_of(30_000), "2", text_of(1_200_000), "3")
    relay = deployment.launch()
    relay.wait_for("set aside")
    relay.kill()
    deployment.start()
    deployment.write("4")
    deployment.catch_up()
    assert [message.value for message in deployment.delivered()] == [b"1", b"2", b"3", b"4"]
    assert [event_id(message) for message in kafka.read_all(topic)] == [events[1], events[3]]
    assert [letter["id"] for letter in letters(deployment)] == [events[1], events[3]]
    kafka.delete_topics(small_topic)


def test_in_exactly_once_mode_a_refused_message_is_not_behind_the_position_when_the_relay_stops(
    deploy: Deploy, database: Database, kafka: Kafka, small_topic: str
) -> None:
    """One that the client library refuses, so that Kafka would commit the position of its transaction."""
    deployment = deploy(database, kafka, small_topic, delivery="exactly_once")
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    deployment.write(text_of(1_200_000))
    assert relay.wait(30) == 1
    deployment.write_settings(refusals=KEPT)
    deployment.start()
    deployment.catch_up()
    assert len(letters(deployment)) == 1
    kafka.delete_topics(small_topic)
