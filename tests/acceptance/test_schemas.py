"""Schemas in the installed command: encoded rows in a real Kafka, and a registry that goes away and comes back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_pause import pause, resume, started
from tests.servers.database import Database
from tests.servers.schema_registry import FakeRegistry
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    fake = FakeRegistry()
    yield fake
    fake.close()


@pytest.fixture
def encoding(deploy: Deploy, database: Database, kafka: Kafka, topic: str, registry: FakeRegistry) -> Deployment:
    registry.register(f"{topic}-value", ORDER)
    routes = [
        {"name": "plain", "when": {"aggregate_id": "plain"}, "schema": {"format": "none"}},
        {"name": "unregistered", "when": {"aggregate_id": "none"}, "schema": {"format": "avro", "version": "9"}},
        {"name": "all-others"},
    ]
    return deploy(
        database,
        kafka,
        topic,
        schema_registry={"url": registry.url, "timeout": 0.5},
        route={"schema": {"format": "avro"}},
        routes=routes,
        refusals={"policy": "dead_letter"},
    )


def read(deployment: Deployment, registry: FakeRegistry) -> list[Any]:
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    context = SerializationContext(deployment.topic, MessageField.VALUE)
    return [deserialize(message.value, context) for message in deployment.delivered()]


def test_rows_are_encoded_and_what_does_not_suit_is_a_dead_letter(encoding: Deployment, registry: FakeRegistry) -> None:
    encoding.start()
    encoding.write('{"n": 1}', '{"n": 2}')
    encoding.write('{"n": "no number"}', '{"n": 3}')
    encoding.write('{"n": 4}', key="none")
    encoding.write('{"n": 5}', key="plain")
    encoding.catch_up()
    *encoded, plain = sorted((message.value or b"" for message in encoding.delivered()), key=lambda value: value[:1])
    assert plain == b'{"n": 5}'
    assert sorted(encoded) == [b"\0\0\0\0\1" + bytes([2 * n]) for n in (1, 2, 3)]
    letters = [json.loads(line) for line in encoding.command("dlq", "export").splitlines()]
    said = json.dumps(letters)
    assert f"payload.n is no long (subject '{encoding.topic}-value', version 1, id 1)" in said
    assert f"the schema registry has no subject '{encoding.topic}-value', version 9" in said

    registry.register(f"{encoding.topic}-value", {**ORDER, "fields": [{"name": "n", "type": ["long", "string"]}]})
    encoding.command("dlq", "replay", "--id", str(letters[0]["id"]))
    assert b"\0\0\0\0\2\2\x12no number" in [message.value for message in encoding.delivered()]


def test_bytes_that_the_writer_encoded_pass_through(encoding: Deployment) -> None:
    encoded = b"\0\0\0\0\7\2already"
    encoding.database.execute("ALTER TABLE outbox ALTER payload TYPE bytea USING convert_to(payload::text, 'UTF8')")
    encoding.start()
    encoding.database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload) VALUES ('thing', 'a', 'Happened', %s)",
        [encoded],
    )
    encoding.catch_up()
    assert [message.value for message in encoding.delivered()] == [encoded]


@pytest.mark.parametrize("delivery", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.slow)])
def test_a_registry_that_is_away_is_waited_for_and_nothing_overtakes(
    encoding: Deployment, registry: FakeRegistry, delivery: str
) -> None:
    encoding.write_settings(delivery=delivery)
    relay = encoding.start()
    registry.answers = 503, b"{}"
    encoding.write(*(f'{{"n": {n}}}' for n in range(10)))
    wait_until(lambda: "cannot be asked" in "".join(map(str, relay.log)), 30, "the log to say so")
    wait_until(lambda: len(registry.asked) > 3, 30, "the registry to be asked again")
    assert "HTTP 503" in encoding.command("doctor", exit_code=1)
    assert encoding.delivered() == []
    registry.answers = None
    encoding.catch_up()
    assert [each["n"] for each in read(encoding, registry)] == [*range(10)]
    assert "".join(map(str, relay.log)).count("reading pauses until it answers") == 1
    assert "version 1, id 1" in encoding.command("doctor", exit_code=None)


@pytest.mark.slow
def test_a_pause_is_obeyed_while_the_registry_is_away(encoding: Deployment, registry: FakeRegistry) -> None:
    relay = started(encoding)
    registry.answers = 503, b"{}"
    encoding.write('{"n": 1}', '{"n": 2}')
    wait_until(lambda: "cannot be asked" in "".join(map(str, relay.log)), 30, "the log to say so")
    pause(encoding)
    relay.wait_for("paused")
    registry.answers = None
    encoding.write('{"n": 3}')
    assert encoding.delivered() == []
    resume(encoding)
    encoding.catch_up()
    assert [each["n"] for each in read(encoding, registry)] == [1, 2, 3]


def test_wrong_credentials_end_the_relay_and_say_what_to_do(encoding: Deployment, registry: FakeRegistry) -> None:
    relay = encoding.start()
    registry.answers = 401, b"{}"
    encoding.write('{"n": 1}')
    assert relay.wait() != 0
    said = "".join(map(str, relay.log))
    assert "refuses walrelay" in said
    assert "schema_registry.username" in said
    registry.answers = None
    encoding.start()
    encoding.catch_up()
    assert [each["n"] for each in read(encoding, registry)] == [1]
