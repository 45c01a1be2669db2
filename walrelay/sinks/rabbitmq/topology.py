"""Exchanges and queues: what the doctor asks about them, and what `walrelay init --topics` declares."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pika
from pika.exceptions import AMQPError, ChannelClosed

from walrelay.errors import Retryable, SinkError, WalrelayError
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.making import making
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
            for (kind, name), topic in _places(settings, topics).items():
                yield _examined(connection, kind, name, topic)
    except WalrelayError as why:
        yield Finding("sink", "problem", str(why), getattr(why, "hint", "") or "Correct sink.url, or start it.")
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
    with _connected(settings) as connection:
        for kind, name in _places(settings, topics):
            try:
                missing = _missing(connection, kind, name)
                if missing:
                    channel = connection.channel()
                    if kind == "queue":
                        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum", **size})
                    else:
                        channel.exchange_declare(name, settings.exchange_type, durable=True)
            except AMQPError as why:
                hint = "Grant the user of sink.url the right to configure it, or declare it yourself."
                raise SinkError(f"RabbitMQ did not declare {kind} {name!r}: {said(why)}", hint=hint) from why
            yield name, missing


def _places(settings: RabbitmqSettings, topics: Sequence[str]) -> dict[tuple[str, str], str]:
    """("exchange" or "queue", its name): those that are known beforehand, each with a topic that goes there."""
    exchange, routing_key = AddressTemplate(settings.exchange), AddressTemplate(settings.routing_key)
    places: dict[tuple[str, str], str] = {}
    for topic in topics if not exchange.by_row else ():
        if settings.exchange:
            places.setdefault(("exchange", exchange.of_topic(topic)), topic)
        elif not routing_key.by_row:
            places.setdefault(("queue", routing_key.of_topic(topic)), topic)
    return {place: topic for place, topic in places.items() if _SOME not in place[1]}


def _examined(connection: Any, kind: str, name: str, topic: str) -> Finding:
    try:
        missing = _missing(connection, kind, name)
    except ChannelClosed as why:
        fix = "Grant the user of sink.url a right to it, for the doctor's sake: rabbitmqctl set_permissions"
        return Finding("sink", "warning", f"{kind} {name!r} cannot be asked for: {why.reply_text}", fix)
    if not missing:
        return Finding("sink", "ok", f"{kind} {name!r} is there")
    return Finding("sink", "problem", f"{kind} {name!r} does not exist", making(topic, f"declare the {kind} yourself"))


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
    """Retryable where that cannot be, Fatal for a certificate that cannot be read."""
    try:
        connection = pika.BlockingConnection(parameters(settings))
    except (AMQPError, OSError) as why:
        raise Retryable(f"RabbitMQ cannot be reached: {said(why)}") from why
    try:
        yield connection
    except AMQPError as why:
        raise Retryable(f"the connection to RabbitMQ is gone: {said(why)}") from why
    finally:
        if connection.is_open:
            connection.close()
