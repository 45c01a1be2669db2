"""The consumer: an ordinary Kafka consumer that notes when each message came."""

import json
import time
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from walrelay.lab.demo.tally import Arrived, Failed, News
from walrelay.lab.servers.kafka import QUIET, explained, topic_ends

TOPIC = "walrelay.demo.order"  # as the settings' route.topic makes it of the aggregate type


class Reader(Thread):
    """Reads what comes into the topic after it was made, and tells of each message in the news."""

    def __init__(self, bootstrap_servers: str, options: Mapping[str, Any], news: News) -> None:
        super().__init__(name="reader", daemon=True)
        self._news = news
        self._leaving = Event()
        with explained(f"the consumer cannot read from {bootstrap_servers}"):
            self._consumer = Consumer(
                {
                    **QUIET,
                    "bootstrap.servers": bootstrap_servers,
                    "group.id": "walrelay-demo",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",  # a message that the broker dropped must not go unnoticed
                    **options,
                }
            )
            # Assigned rather than subscribed: no group has to be formed, and none is left on the user's brokers.
            ends = topic_ends(self._consumer, TOPIC)
            self._consumer.assign([TopicPartition(TOPIC, *place) for place in ends.items()])

    def run(self) -> None:
        poll, now_ns, put = self._consumer.poll, time.time_ns, self._news.put
        try:
            while not self._leaving.is_set():
                message = poll(0.05)
                if message is None:
                    continue
                at_ns = now_ns()
                if message.error() is not None:
                    raise KafkaException(message.error())
                put(_arrived(message, at_ns))
        except (KafkaException, ValueError, LookupError) as error:
            self._news.put(Failed("the consumer", error))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self.join(5)
        self._consumer.close()


def _arrived(message: Message, at_ns: int) -> Arrived:
    headers: dict[str, Any] = dict(message.headers() or [])
    key, value = message.key() or b"", message.value() or b""
    return Arrived(headers["id"].decode(), key.decode(), json.loads(value)["step"], at_ns)
