"""Messages as real brokers' own libraries give them, and what identifies them."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import aio_pika
import nats as nats_py
import pytest
import redis as redis_py
from confluent_kafka import Consumer, Producer

from tests.servers.nats import NatsServer
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.redis import RedisServer
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.inbox import Identity, Position, Unidentified, identify

COMMITTED = 1_760_000_000_123  # milliseconds since 1970
HEADERS = {"id": "e1", "type": "OrderPlaced", "position": "16/B374D848:2"}
KNOWN = Identity("e1", "OrderPlaced", Position("16/B374D848", 2))


def kafka_messages(kafka: Kafka, topic: str, *headers: list[tuple[str, Any]]) -> list[Any]:
    """Messages of confluent-kafka's own class, in partition 1."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for each in headers:
        producer.produce(topic, b"{}", partition=1, headers=each, timestamp=COMMITTED)
    producer.flush(10)
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    messages: list[Any] = []

    def all_there() -> bool:
        messages.extend(consumer.consume(10, 0.2))
        return len(messages) >= len(headers)

    try:
        wait_until(all_there, 30, "messages")
    finally:
        consumer.close()
    return messages


def test_a_message_of_kafka_is_identified_with_its_partition_and_commit_time(kafka: Kafka, topic: str) -> None:
    plain, replayed, own = kafka_messages(
        kafka, topic, list(HEADERS.items()), [*HEADERS.items(), ("replayed", b"true")], [("id", "mine"), ("id", "e2")]
    )
    committed_at = datetime(2025, 10, 9, 8, 53, 20, 123000, UTC)
    expected = KNOWN._replace(source=f"{topic}[1]", committed_at=committed_at)
    assert identify(plain) == expected
    assert identify(replayed) == expected._replace(replayed=True)
    assert identify(own) == Identity("e2", source=f"{topic}[1]", committed_at=committed_at)


def test_a_dead_letter_in_a_topic_goes_by_its_id(kafka: Kafka, topic: str) -> None:
    """It comes when its message was refused, behind letters with higher positions: a mark would pass it over."""
    letter = [*HEADERS.items(), ("dead_letter_error", b"too_large"), ("dead_letter_topic", b"orders")]
    (message,) = kafka_messages(kafka, topic, letter)
    assert identify(message).replayed


def test_a_message_of_kafka_without_an_id_is_said(kafka: Kafka, topic: str) -> None:
    none, other = kafka_messages(kafka, topic, [], [("b3", "x")])
    with pytest.raises(Unidentified, match=rf"partition {topic}\[1\] has no header 'id' \(it has: none\)"):
        identify(none)
    with pytest.raises(Unidentified, match="it has: b3"):
        identify(other)


def test_timestamps_that_are_the_brokers_are_no_commit_times(kafka: Kafka) -> None:
    topic = kafka.create_topic(partitions=2, config={"message.timestamp.type": "LogAppendTime"})
    (message,) = kafka_messages(kafka, topic, list(HEADERS.items()))
    assert identify(message) == KNOWN._replace(source=f"{topic}[1]")
    kafka.delete_topics(topic)


def test_a_message_of_rabbitmq_is_identified(rabbitmq: RabbitmqServer) -> None:
    async def received() -> list[Any]:
        async with await aio_pika.connect(rabbitmq.url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            sent: list[dict[str, Any]] = [
                {"headers": dict(HEADERS)},
                {"headers": {**HEADERS, "replayed": True}, "message_id": "other"},
                {"message_id": "e3"},
            ]
            for each in sent:
                await channel.default_exchange.publish(aio_pika.Message(b"{}", **each), queue.name)
            return [await queue.get(timeout=10) for _ in sent]

    plain, replayed, fallback = asyncio.run(received())
    assert identify(plain) == KNOWN
    assert identify(replayed) == KNOWN._replace(replayed=True)
    assert identify(fallback) == Identity("e3")


def test_a_message_of_jetstream_is_identified(nats: NatsServer) -> None:
    async def received() -> list[Any]:
        client = await nats_py.connect(nats.url)
        stream = client.jetstream()
        await stream.add_stream(name="orders", subjects=["orders.>"])
        sent: list[dict[str, str] | None] = [
            dict(HEADERS),
            {**HEADERS, "replayed": "true", "Nats-Msg-Id": "other"},
            {"Nats-Msg-Id": "e3"},
            None,
        ]
        for each in sent:
            await stream.publish("orders.placed", b"{}", headers=each)
        subscription = await stream.pull_subscribe("orders.>", "billing")
        messages = await subscription.fetch(len(sent), timeout=10)
        await client.close()
        return list(messages)

    plain, replayed, fallback, none = asyncio.run(received())
    assert identify(plain) == KNOWN
    assert identify(replayed) == KNOWN._replace(replayed=True)
    assert identify(fallback) == Identity("e3")
    with pytest.raises(Unidentified, match=r"subject orders\.placed"):
        identify(none)


@pytest.mark.parametrize("decode", [False, True])
def test_an_entry_of_a_redis_stream_is_identified(redis: RedisServer, decode: bool) -> None:
    with redis_py.Redis.from_url(redis.url, decode_responses=decode) as client:
        client.flushdb()
        client.xgroup_create("orders", "billing", mkstream=True)
        for fields in (HEADERS, {**HEADERS, "replayed": "true"}, {"other": "x"}):
            client.xadd("orders", {**fields, "value": "{}"})
        ((_, entries),) = _pairs(client.xreadgroup("billing", "one", {"orders": ">"}))
        again = client.xrange("orders")

    plain, replayed, none = entries
    assert identify(plain) == identify(again[0]) == KNOWN
    assert identify(replayed) == KNOWN._replace(replayed=True)
    with pytest.raises(Unidentified, match="Redis stream"):
        identify(none)


def _pairs(answer: Any) -> Any:
    """By stream: a list in protocol 2, a mapping to lists of entries in protocol 3."""
    if isinstance(answer, dict):
        return [(name, entries[0]) for name, entries in answer.items()]
    return answer


def test_what_is_no_message_is_said() -> None:
    for other in (None, "e1", {"id": "e1"}, ("1-0", None)):
        with pytest.raises(TypeError, match="is not a message that walrelay knows"):
            identify(other)
