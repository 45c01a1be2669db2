"""What a producer knows of the brokers' topics, asked sooner than it asks itself."""

from contextlib import suppress
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, Producer

from walrelay.model import ANY_PARTITION, Message

_NUDGES = 20
_NUDGE_WAIT, _NUDGE_PAUSE = 0.02, 0.01  # seconds
_ANSWER = 1.0  # seconds for the brokers to say which partitions there are


class MetadataNudge:
    """Asks for metadata again and again until something was delivered, which gives a new producer its id sooner.

    Nothing is sent without that id. librdkafka (2.16) asks for it whenever a connected broker sends metadata, and
    otherwise every 500 ms only. It drops the bootstrap broker as soon as that has answered.
    """

    def __init__(self, producer: Producer) -> None:
        self.topic = ""
        self._producer = producer
        self._left, self._next = _NUDGES, 0.0

    def ask(self) -> None:
        if self._left and self.topic and monotonic() >= self._next:
            self._left -= 1
            with suppress(KafkaException):  # not connected yet; other errors come as receipts do
                self._producer.list_topics(self.topic, timeout=_NUDGE_WAIT)
            self._next = monotonic() + _NUDGE_PAUSE

    def stop(self) -> None:
        self._left = 0


def may_have_partition(producer: Producer, message: Message, error: KafkaError) -> bool:
    """Whether the partition that the message names may have been added since the client asked which there are, as it
    does every five minutes. It is asked now, so it knows; True also where the brokers do not answer.
    """
    if error.code() != KafkaError._UNKNOWN_PARTITION or message.partition == ANY_PARTITION:
        return False
    try:
        found = producer.list_topics(message.topic, timeout=_ANSWER).topics[message.topic]
    except KafkaException:
        return True
    return message.partition in found.partitions
