"""RabbitMQ: a quorum queue."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pika

from walrelay.lab.brokers.contract import ReadMessage, ServedBroker, messages, until
from walrelay.lab.servers.backstage import free_port
from walrelay.lab.servers.installed import RabbitmqPlace, rabbitmq_programs
from walrelay.sinks.rabbitmq.plugin import plugin

_MOMENT = 0.05  # seconds


class LabRabbitmq(ServedBroker):
    """A node and a port mapper of its own take ten seconds to start."""

    KIND, TITLE, PLUGIN = "rabbitmq", "RabbitMQ", plugin

    def consumer(self, topic: str) -> "QueueConsumer":
        return QueueConsumer(self._address, topic)

    def held(self, topic: str) -> int:
        with self._channel() as channel:
            count: int = channel.queue_declare(topic, passive=True).method.message_count
        return count

    def _begin(self) -> str:
        self._programs = rabbitmq_programs()
        self._place = RabbitmqPlace(self._backstage.directory("rabbitmq"), free_port(), free_port(), free_port())
        self._environment = self._place.environment()
        self._mapper = self._backstage.start(
            "Erlang's port mapper",
            [self._programs.port_mapper, *self._place.port_mapper_arguments],
            environment=self._environment,
        )
        return self._place.url

    def _until_ready(self) -> str:
        until(self._mapper, self._place.mapper_answers)
        node = self._backstage.start(
            "RabbitMQ", [self._programs.server], directory=self._place.directory, environment=self._environment
        )
        until(node, self._place.answers)
        return self._place.url

    def _version(self) -> str:
        with self._channel() as channel:
            return str(channel.connection._impl.server_properties.get("version", ""))

    def _remove(self, topic: str) -> None:
        with self._channel() as channel:
            channel.queue_delete(topic)

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.URLParameters(self._address))
        try:
            yield connection.channel()
        finally:
            connection.close()


class QueueConsumer:
    def __init__(self, url: str, queue: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._got = self._connection.channel().consume(queue, auto_ack=True, inactivity_timeout=_MOMENT)

    def receive(self) -> Iterable[ReadMessage]:
        method, properties, body = next(self._got)
        return [] if method is None else messages([(properties.headers, body)])

    def close(self) -> None:
        self._connection.close()
