"""The producers of Kafka transactions: settings, identities, and the fence that keeps their predecessors out."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from walrelay.errors import Retryable, SinkError
from walrelay.model import System
from walrelay.sinks.kafka.batching import UNBATCHED
from walrelay.sinks.kafka.errors import AWAY, CLIENT_LOG, Complaints, error_of, text_of
from walrelay.sinks.kafka.settings import KafkaSettings

TURNS = 3  # producers; never fewer than before: what an earlier version may hold has to be fenced off
_FENCE_WAIT = 1.0 / TURNS  # seconds
_FORBIDDEN = {KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


def transactional_ids(system: System, slot: str) -> list[str]:
    """The same for every instance: Kafka takes each producer of an id for the successor of the one before. The first is
    the only one that early versions had. A slot's name has no hyphen, so no id is another slot's.
    """
    first = f"walrelay-{system.identifier}-{slot}"
    return [first, *(f"{first}-{number}" for number in range(2, TURNS + 1))]


Counted = Callable[[Mapping[str, Any]], dict[str, Any]]


class Turns:
    """Producers that take turns, a transaction each; `producer` is the one whose turn it is.

    A broker acknowledges a commit before all of its markers are written. Until then it refuses the first request of the
    next transaction of that producer, which librdkafka (2.16) sends again only after 20 ms.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        system: System,
        slot: str,
        count: int,
        *,
        unbatched: bool,
        complaints: Complaints,
        counted: Counted = dict,
    ) -> None:
        """`count` of them publish. All ids are fenced off, because an earlier run may have had all."""
        self._settings = settings
        self._unfenced = {
            identity: producer(settings, identity, unbatched=unbatched, complaints=complaints, counted=counted)
            for identity in transactional_ids(system, slot)
        }
        self.producer, *self._others = [*self._unfenced.values()][:count]

    def fence(self) -> bool:
        """Fences off earlier producers: they can commit nothing more. False: not yet, ask again."""
        for identity, each in [*self._unfenced.items()]:
            if not _fenced(each, self._settings, identity):
                return False
            del self._unfenced[identity]
        return True

    def next(self) -> Producer:
        """The one that has had no transaction for longest; to be called when a commit was acknowledged."""
        self._others.append(self.producer)
        self.producer = self._others.pop(0)
        return self.producer

    def poll(self, timeout: float) -> None:
        """The others can only complain; heard later, that would be out of date."""
        for each in self._others:
            each.poll(0)
        self.producer.poll(timeout)


def producer(
    settings: KafkaSettings, identity: str, *, unbatched: bool, complaints: Complaints, counted: Counted
) -> Producer:
    """Transactional; reports failures only. `unbatched`: each message in a request of its own. `counted`: see
    `BatchingHistory.counted`.
    """
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
        return Producer(counted(options), logger=CLIENT_LOG)
    except (KafkaException, ValueError, TypeError) as cause:
        raise SinkError(
            f"librdkafka does not accept the sink's settings: {text_of(cause)}",
            hint="Correct the names and values under sink.options; librdkafka's CONFIGURATION.md lists them.",
        ) from cause


def away(error: KafkaError) -> bool:
    """Returns False if asking again may help; raises Retryable if only a new producer can help."""
    if error.code() not in AWAY and (error.fatal() or not error.retriable()):
        raise Retryable(f"the transactional producer could not begin: {error.str()}")
    return False


def _fenced(producer: Producer, settings: KafkaSettings, identity: str) -> bool:
    """One identity of `Turns.fence`."""
    try:
        producer.init_transactions(_FENCE_WAIT)
    except KafkaException as cause:
        error = error_of(cause)
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise SinkError(
                f"Kafka allows no transaction as long as {settings.transaction_timeout:g} s",
                hint="Lower sink.transaction_timeout, or raise transaction.max.timeout.ms of the brokers.",
            ) from cause
        if error.code() in _FORBIDDEN:
            raise SinkError(
                f"Kafka refuses the transactional id {identity!r}: {error.str()}",
                hint="Allow walrelay's principal Write and Describe on all ids that begin with walrelay-: kafka-acls.sh"
                " --add --allow-principal User:... --operation Write --operation Describe --transactional-id walrelay-"
                " --resource-pattern-type prefixed",
            ) from cause
        away(error)
        raise
    return True
