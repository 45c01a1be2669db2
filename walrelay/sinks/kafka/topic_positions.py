"""A relay's own position in Kafka while it publishes at least once: written after the messages have their receipts."""

from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from walrelay.errors import Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import Position, System
from walrelay.sinks.kafka.position_topic import PositionTopic
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.sink import error_of

_WAIT = 0.05  # seconds for the broker to take a position; a later call finds what took longer


class TopicPositions:
    """Implements `walrelay.source.contract.Positions` with a producer of its own."""

    def __init__(self, settings: KafkaSettings, system: System, slot: str) -> None:
        self._topic = PositionTopic(settings, system, slot)
        self._durable = self._sent = Position(system, slot, ZERO)
        self._settings = settings
        self._producer: Producer | None = None

    def last(self) -> Position | None:
        try:
            self._topic.make()
        except KafkaException as cause:
            raise Retryable(f"the topic for positions could not be reached: {error_of(cause).str()}") from cause
        return self._topic.last()

    def keep(self, position: Position) -> LSN:
        if self._producer is None:
            self._producer = Producer({**self._settings.client_options(), "linger.ms": 0, "log_level": 0})
        if self._sent == self._durable:
            with suppress(BufferError):
                self._topic.write(self._producer, position, self._delivered)
                self._sent = position
        try:
            self._producer.poll(_WAIT)
        except (KafkaException, SystemError) as cause:
            raise Retryable(f"the position could not be written: {cause}") from cause
        return self._durable.lsn

    def _delivered(self, error: KafkaError | None, message: Delivered) -> None:
        if error is None:
            self._durable = self._sent
