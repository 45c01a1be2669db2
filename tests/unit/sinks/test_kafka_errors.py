"""How Kafka's refusals are told: by their cause, and with the command that the operator runs next."""

import pytest
from confluent_kafka import KafkaError

from walrelay.errors import START_AGAIN
from walrelay.model import Message
from walrelay.sinks.kafka.errors import Failure


def _refusal(code: int, topic: str) -> tuple[str, str]:
    refusal = Failure(1, Message(topic, b"k", b"v", [], 0), KafkaError(code), certain=True).as_refusal(ends=False)
    return refusal.error, refusal.hint


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC])
@pytest.mark.parametrize("topic", ["no topic", "", ".", "..", "a" * 250, "a:b"])
def test_a_name_that_no_topic_can_have_is_no_missing_topic(code: int, topic: str) -> None:
    """librdkafka says "unknown topic" of such a name where it waited too long for the broker's answer about it."""
    assert _refusal(code, topic) == _refusal(KafkaError.TOPIC_EXCEPTION, topic)


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC])
def test_a_topic_that_is_not_there_is_to_be_created(code: int) -> None:
    error, hint = _refusal(code, "orders.v1")
    assert error == "unknown_topic"
    assert "walrelay init --topics orders.v1 --exact" in hint
    assert hint.endswith(START_AGAIN)
