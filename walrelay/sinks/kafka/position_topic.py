"""A compacted topic that holds the position of each relay, written in the same Kafka transaction as its messages."""

from collections.abc import Callable
from contextlib import closing
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from walrelay.errors import Retryable, SinkError
from walrelay.model import RelayPosition, System
from walrelay.sinks.kafka.errors import AWAY, NOT_THERE, error_of
from walrelay.sinks.kafka.settings import KafkaSettings

_PARTITION = 0  # the only one in use: a reader of positions must know it
_FIRST_LOOK = 200  # records from the end; then ten times as many, and so on
_REQUEST = 10.0  # seconds for an answer
_MAKE = 1.0  # seconds; the caller asks again, and may stop in between
_BEHIND, _AGAIN = 5.0, 0.1  # seconds: a broker whose metadata are behind says that a topic does not exist
_PATIENCE = 30.0  # seconds: open transactions of other relays hide the records behind them
_PRODUCERS_OWN = ("linger.ms", "partitioner", "allow.auto.create.topics", "queue.buffering.max.")


class PositionTopic:
    """One relay's positions in the topic, under its key."""

    def __init__(self, settings: KafkaSettings, system: System, slot: str) -> None:
        self._topic = settings.positions_topic
        self._key = f"{system.identifier}/{slot}".encode()
        self._options = _shared_options(settings)
        self._made = False
        self.written: RelayPosition | None = None  # the last one, durable or not

    def make(self) -> None:
        """Makes the topic if it does not exist; KafkaException where the cluster cannot be asked."""
        if self._made:
            return
        admin = AdminClient(self._options)
        topic = NewTopic(self._topic, num_partitions=1, replication_factor=-1, config={"cleanup.policy": "compact"})
        try:
            admin.create_topics([topic], operation_timeout=_MAKE, request_timeout=_MAKE)[self._topic].result()
        except KafkaException as cause:
            code = error_of(cause).code()
            if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
                self._refuse_missing(admin, error_of(cause))
            elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        self._refuse_forgetful(admin)
        self._made = True

    def write(self, producer: Producer, position: RelayPosition, report: Callable[..., None] | None = None) -> None:
        """Hands `position` to the producer, into its transaction if it has one; BufferError when it has no room now."""
        producer.produce(self._topic, position.as_json(), self._key, _PARTITION, report)
        self.written = position

    def last(self) -> RelayPosition | None:
        """The last committed position of this relay, None if the topic has none; Retryable where it cannot be read.

        The topic was made or seen before: an error that says that it does not exist is no answer.
        """
        deadline = monotonic() + _BEHIND
        while True:
            try:
                return self._search()
            except KafkaException as cause:
                error = error_of(cause)
                if error.code() not in NOT_THERE or monotonic() > deadline:
                    raise Retryable(
                        f"the position could not be read from topic {self._topic!r}: {error.str()}"
                    ) from cause
                sleep(_AGAIN)

    def _search(self) -> RelayPosition | None:
        end = self._end()
        span = _FIRST_LOOK
        while True:
            found = self._look(max(0, end - span), end)
            if found is not None or span >= end:
                return found
            span *= 10

    def _end(self) -> int:
        """The end of the partition, uncommitted records included."""
        with closing(self._consumer("read_uncommitted")) as consumer:
            _, high = consumer.get_watermark_offsets(TopicPartition(self._topic, _PARTITION), timeout=_REQUEST)
        return int(high)

    def _look(self, start: int, end: int) -> RelayPosition | None:
        """The last position from `start` to `end`. Waits for transactions of other relays that are open."""
        found: RelayPosition | None = None
        deadline = monotonic() + _PATIENCE
        with closing(self._consumer("read_committed")) as consumer:
            partition = TopicPartition(self._topic, _PARTITION, start)
            consumer.assign([partition])
            reached = start
            while reached < end:
                if monotonic() > deadline:
                    raise Retryable(
                        f"the position in topic {self._topic!r} is hidden behind a transaction that is not finished"
                    )
                message = consumer.poll(0.5)  # `consume` would wait that long for as many as it was asked for
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    if message.key() == self._key and message.value():
                        found = self._parsed(message.value() or b"")
                    reached = max(reached, (message.offset() or 0) + 1)
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached = max(reached, message.offset() or 0)
                else:
                    raise KafkaException(error)
        return found

    def _parsed(self, value: bytes) -> RelayPosition:
        try:
            return RelayPosition.of_json(value)
        except (ValueError, TypeError, LookupError) as cause:
            raise SinkError(
                f"the position of {self._key.decode()!r} in topic {self._topic!r} cannot be read: {value[:100]!r}",
                hint="Something else wrote to the topic. Give the relay a topic of its own: sink.positions_topic; with"
                " `walrelay run --from-slot` it begins where the slot stands.",
            ) from cause

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                **self._options,
                "group.id": f"walrelay-position-{uuid4().hex[:12]}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",  # if the log was truncated beyond `start` meanwhile
                "isolation.level": isolation,
                "fetch.wait.max.ms": 5,
            }
        )

    def _refuse_missing(self, admin: AdminClient, error: KafkaError) -> None:
        """Raises unless the topic exists: another principal may have made it."""
        deadline = monotonic() + _BEHIND
        while self._topic not in admin.list_topics(timeout=_MAKE).topics:
            if monotonic() < deadline:
                sleep(_AGAIN)
                continue
            raise SinkError(
                f"the topic {self._topic!r} for positions could not be made: {error.str()}",
                hint=f"Make it: kafka-topics.sh --create --topic {self._topic} --partitions 1 --config"
                " cleanup.policy=compact; and allow walrelay's principal to read and write it.",
            )

    def _refuse_forgetful(self, admin: AdminClient) -> None:
        """Raises if positions expire: the relay would begin as if there had been none."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        try:
            found = admin.describe_configs([resource], request_timeout=_MAKE)[resource].result()
        except KafkaException as cause:
            if error_of(cause).code() in AWAY:
                raise
            return  # walrelay may not read the setting; the doctor reports that
        policy = found["cleanup.policy"].value
        if policy != "compact":
            raise SinkError(
                f"the topic {self._topic!r} has cleanup.policy={policy}: positions in it would be forgotten",
                hint=f"kafka-configs.sh --alter --entity-type topics --entity-name {self._topic} --add-config"
                " cleanup.policy=compact",
            )


def _shared_options(settings: KafkaSettings) -> dict[str, Any]:
    """The sink's client options that consumers and administration clients have as well."""
    own = {name: value for name, value in settings.client_options().items() if name in settings.options}
    options = {name: value for name, value in own.items() if not name.startswith(_PRODUCERS_OWN)}
    return {**options, "bootstrap.servers": settings.bootstrap_servers, "log_level": 0}
