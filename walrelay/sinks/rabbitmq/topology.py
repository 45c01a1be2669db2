"""Exchanges and queues: what the doctor asks about them, and what `walrelay init --topics` declares."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pika
from pika.exceptions import AMQPError, ChannelClosed

from walrelay.errors import Fatal
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.rabbitmq.connection import parameters, said
from walrelay.sinks.rabbitmq.settings import RabbitmqSettings

_MISSING = 404
_SOME = "*"  # in a topic or template: what only a row can say


def examine(settings: RabbitmqSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Connects, and asks for what messages go to. A queue's type and bindings cannot be asked for over AMQP."""
    try:
        with _connected(settings) as connection:
            product = connection._impl.server_properties
            version = product.get("version", "?")
            yield Finding("sink", "ok", f"connected to RabbitMQ {version} as the user of sink.url")
            for kind, name in _places(settings, topics):
                yield _examined(connection, kind, name)
    except AMQPError as why:
        yield Finding("sink", "problem", f"RabbitMQ cannot be reached: {said(why)}", "Correct sink.url, or start it.")
    if not settings.mandatory:
        yield Finding(
            "sink",
            "warning",
            "sink.mandatory is off: a message that no queue takes is lost",
            "Remove sink.mandatory, which is true by default.",
        )
    if settings.ordering == "pipelined":
        yield Finding(
            "sink",
            "warning",
            "sink.ordering is pipelined: a message that RabbitMQ loses is overtaken by later ones",
            "Set sink.ordering to per_key if consumers need the order.",
        )


def declare(
    settings: RabbitmqSettings, topics: Sequence[str], replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    """With the default exchange a quorum queue for each topic, otherwise the exchange, durable."""
    size = {} if replication_factor is None else {"x-quorum-initial-group-size": replication_factor}
    try:
        with _connected(settings) as connection:
            for kind, name in _places(settings, topics):
                missing = _missing(connection, kind, name)
                if missing:
                    channel = connection.channel()
                    if kind == "queue":
                        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum", **size})
                    else:
                        channel.exchange_declare(name, settings.exchange_type, durable=True)
                yield name, missing
    except AMQPError as why:
        raise Fatal(f"RabbitMQ did not declare what is missing: {said(why)}", hint="Declare it yourself.") from why


def _places(settings: RabbitmqSettings, topics: Sequence[str]) -> list[tuple[str, str]]:
    """("exchange" or "queue", its name): those that are known beforehand."""
    exchange, routing_key = AddressTemplate(settings.exchange), AddressTemplate(settings.routing_key)
    places: dict[tuple[str, str], None] = {}
    for topic in topics if not exchange.by_row else ():
        if name := exchange.of_topic(topic):
            places["exchange", name] = None
        elif not routing_key.by_row:
            places["queue", routing_key.of_topic(topic)] = None
    return [place for place in places if _SOME not in place[1]]


def _examined(connection: Any, kind: str, name: str) -> Finding:
    if not _missing(connection, kind, name):
        return Finding("sink", "ok", f"{kind} {name!r} is there")
    return Finding(
        "sink", "problem", f"{kind} {name!r} does not exist", "walrelay init --topics, or declare it yourself."
    )


def _missing(connection: Any, kind: str, name: str) -> bool:
    channel = connection.channel()
    try:
        if kind == "queue":
            channel.queue_declare(name, passive=True)
        else:
            channel.exchange_declare(name, passive=True)
    except ChannelClosed as why:
        if why.reply_code == _MISSING:
            return True
        raise
    channel.close()
    return False


@contextmanager
def _connected(settings: RabbitmqSettings) -> Iterator[Any]:
    connection = pika.BlockingConnection(parameters(settings))
    try:
        yield connection
    finally:
        connection.close()
