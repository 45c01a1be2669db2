"""The settings of the Kafka sink, and which librdkafka options would break the guarantee."""

import logging
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

_GUARANTEED: dict[str, Any] = {
    "enable.idempotence": True,  # order and no repetition under retries; forces acks=all
    "message.timeout.ms": 0,  # never give up: a message that times out leaves a gap in the order
    "enable.gapless.guarantee": True,  # after a message that failed for good no later one is sent
}

SOON_CONNECTED: dict[str, Any] = {"reconnect.backoff.ms": 20}
"""librdkafka (2.16) waits half of it between its first connection, which tells it the brokers, and the next one. (After
a failure the pause doubles each time, up to reconnect.backoff.max.ms.)
"""

_REFUSED = {
    "acks": "acks=all is what makes a message durable",
    "request.required.acks": "acks=all is what makes a message durable",
    "enable.idempotence": "without it retries reorder and repeat messages",
    "enable.gapless.guarantee": "without it messages overtake one that failed",
    "message.timeout.ms": "a message that times out leaves a gap in the order; walrelay waits for the broker instead",
    "delivery.timeout.ms": "a message that times out leaves a gap in the order; walrelay waits for the broker instead",
    "retries": "idempotence needs them unlimited",
    "message.send.max.retries": "idempotence needs them unlimited",
    "max.in.flight": "idempotence keeps the order with at most 5, which is what it is set to",
    "max.in.flight.requests.per.connection": "idempotence keeps the order with at most 5, which is what it is set to",
    "queuing.strategy": "last-in-first-out is no order",
    "delivery.report.only.error": "the sink sets it, and knows from it which messages are durable",
    "transactional.id": "it is made of the slot's name, the same for every instance; set delivery: exactly_once",
    "transaction.timeout.ms": "it has a setting of its own: sink.transaction_timeout",
    "default.topic.config": "topic options go directly under sink.options",
    "bootstrap.servers": "it has a setting of its own: sink.bootstrap_servers",
    "metadata.broker.list": "it has a setting of its own: sink.bootstrap_servers",
    "allow.auto.create.topics": "it has a setting of its own: sink.create_topics",
    "queue.buffering.max.messages": "it has a setting of its own: sink.max_queued_messages",
    "queue.buffering.max.kbytes": "it has a setting of its own: sink.max_queued_bytes",
}

Plain = bool | int | float | str
Option = Plain | SecretStr
# What librdkafka says of an option itself; other complaints may be about another option that is missing.
_ABOUT_THE_OPTION = re.compile(
    r"No such configuration property|Invalid value|Configuration property \S+ value \S* is outside"
)
_SILENT = logging.Logger("librdkafka")
_SILENT.addHandler(logging.NullHandler())


class KafkaSettings(BaseModel):
    """`kind: kafka`: acks=all, idempotent, in order per partition; a broker that is away makes back-pressure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: str = Field(min_length=1, description="host:port of one broker or several, separated by commas.")
    create_topics: bool = Field(
        False,
        description="Whether the broker may create a topic that does not exist, with its default partitions"
        " (it must have auto.create.topics.enable). Otherwise such a topic stops the relay.",
    )
    max_queued_messages: int = Field(
        20_000, ge=1, description="Messages that may wait for the broker before reading pauses."
    )
    max_queued_bytes: int = Field(
        32 * 2**20,
        ge=2**20,
        description="Bytes of messages that may wait for the broker before reading pauses.",
    )
    positions_topic: str = Field(
        "walrelay.positions",
        min_length=1,
        description="delivery: exactly_once: the compacted topic that holds the relays' positions; made if missing.",
    )
    transaction_timeout: float = Field(
        60,
        ge=1,
        allow_inf_nan=False,
        description="delivery: exactly_once: the broker aborts a Kafka transaction that is open for longer. A"
        " PostgreSQL transaction that takes more than a third of this time to publish is split over several Kafka"
        " transactions, so consumers can see a part of it.",
        json_schema_extra={"unit": "seconds"},
    )
    group_messages: int = Field(
        50_000,
        ge=1,
        description="delivery: exactly_once: a Kafka transaction ends after this many messages, or earlier.",
    )
    group_bytes: int = Field(
        64 * 2**20,
        ge=1,
        description="delivery: exactly_once: a Kafka transaction ends after this many bytes, or earlier.",
    )
    group_interval: float = Field(
        0.5,
        gt=0,
        allow_inf_nan=False,
        description="delivery: exactly_once: a Kafka transaction ends after this time, or as soon as no more messages"
        " come.",
        json_schema_extra={"unit": "seconds"},
    )
    options: dict[str, Option] = Field(
        default_factory=dict,
        description="Any other librdkafka setting: security.protocol, sasl.*, ssl.*, compression.type, linger.ms ...",
    )

    @field_validator("options")
    @classmethod
    def _keep_the_guarantee(cls, options: dict[str, Option]) -> dict[str, Option]:
        refused = [f"{name}: {_REFUSED[name]}" for name in options if name in _REFUSED]
        if refused:
            raise ValueError("refused, because it would break the guarantee: " + "; ".join(refused))
        return options

    @field_validator("options")
    @classmethod
    def _known_to_the_client(cls, options: dict[str, Option]) -> dict[str, Option]:
        try:
            wrong = [text for name, value in options.items() if (text := _refused_by_client(name, _plain(value)))]
        except ImportError:  # opening the sink reports that
            return options
        if wrong:
            raise ValueError("; ".join(wrong))
        return options

    def client_options(self) -> Mapping[str, Any]:
        """The whole configuration for a librdkafka producer."""
        options = {name: _plain(value) for name, value in self.options.items()}
        largest = int(options.get("message.max.bytes", 1_000_000))
        return {
            "client.id": "walrelay",
            "linger.ms": 20,  # only while frames keep coming: the relay flushes as soon as the stream is drained
            "partitioner": "murmur2_random",  # where Java's clients would put the same key
            **SOON_CONNECTED,
            **options,
            **_GUARANTEED,
            "bootstrap.servers": self.bootstrap_servers,
            "allow.auto.create.topics": self.create_topics,
            "queue.buffering.max.messages": self.max_queued_messages,
            # A message larger than the whole queue would never find room.
            "queue.buffering.max.kbytes": max(self.max_queued_bytes, 2 * largest) // 1024,
        }


def _plain(value: Option) -> Plain:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _refused_by_client(name: str, value: Plain) -> str:
    """Why librdkafka takes no such option or value; empty if it does. Asks librdkafka itself, without connecting: a
    list of names would soon be outdated.
    """
    from confluent_kafka import KafkaError, KafkaException, Producer

    try:
        Producer({"log_level": 0, name: value}, logger=_SILENT)
    except (KafkaException, TypeError, ValueError) as cause:
        error = cause.args[0] if cause.args else cause
        text = error.str().strip() if isinstance(error, KafkaError) else str(error)
        return f"{name}: librdkafka says: {text}" if _ABOUT_THE_OPTION.match(text) else ""
    return ""
