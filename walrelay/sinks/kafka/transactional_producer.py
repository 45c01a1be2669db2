"""The producer of Kafka transactions: its settings, its identity, and the fence that keeps its predecessors out."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from walrelay.errors import Fatal, Retryable
from walrelay.model import System
from walrelay.sinks.kafka.batching import UNBATCHED
from walrelay.sinks.kafka.errors import AWAY, CLIENT_LOG, Complaints, error_of, text_of
from walrelay.sinks.kafka.settings import KafkaSettings

_FENCE_WAIT = 1.0  # seconds
_FORBIDDEN = {KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


def transactional_id(system: System, slot: str) -> str:
    """The same for every instance: Kafka takes each producer of this id for the successor of the one before."""
    return f"walrelay-{system.identifier}-{slot}"


def producer(settings: KafkaSettings, identity: str, *, unbatched: bool, complaints: Complaints) -> Producer:
    """Transactional; reports failures only. `unbatched`: each message in a request of its own."""
    options: dict[str, Any] = {
        **settings.client_options(),
        **(UNBATCHED if unbatched else {}),
        "transactional.id": identity,
        "transaction.timeout.ms": int(settings.transaction_timeout * 1000),
        "delivery.report.only.error": True,
        "error_cb": complaints,
    }
    # A message that times out, or any gap, aborts the transaction: no consumer sees it.
    for name in ("message.timeout.ms", "enable.gapless.guarantee"):
        del options[name]
    try:
        return Producer(options, logger=CLIENT_LOG)
    except (KafkaException, ValueError, TypeError) as cause:
        raise Fatal(
            f"librdkafka does not accept the sink's settings: {text_of(cause)}",
            hint="Correct the names and values under sink.options; librdkafka's CONFIGURATION.md lists them.",
        ) from cause


def fenced(producer: Producer, settings: KafkaSettings, identity: str) -> bool:
    """Fences off earlier producers of this identity: they can commit nothing more. False: not yet, ask again."""
    try:
        producer.init_transactions(_FENCE_WAIT)
    except KafkaException as cause:
        error = error_of(cause)
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise Fatal(
                f"Kafka allows no transaction as long as {settings.transaction_timeout:g} s",
                hint="Lower sink.transaction_timeout, or raise transaction.max.timeout.ms of the brokers.",
            ) from cause
        if error.code() in _FORBIDDEN:
            raise Fatal(
                f"Kafka refuses the transactional id {identity!r}: {error.str()}",
                hint="Allow walrelay's principal Write and Describe on it: kafka-acls.sh --add --allow-principal"
                " User:... --operation Write --operation Describe --transactional-id ...",
            ) from cause
        return away(error)
    return True


def away(error: KafkaError) -> bool:
    """Returns False if asking again may help; raises Retryable if only a new producer can help."""
    if error.code() not in AWAY and (error.fatal() or not error.retriable()):
        raise Retryable(f"the transactional producer could not begin: {error.str()}")
    return False
