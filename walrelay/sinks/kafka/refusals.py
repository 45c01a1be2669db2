"""Which of Kafka's errors no retry can cure, and what an operator can do about each."""

from confluent_kafka import KafkaError

from walrelay.model import Message

_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise message.max.bytes under sink.options, and max.message.bytes of the topic:"
    " kafka-configs.sh --alter --topic {topic} --add-config max.message.bytes=10485760 ...",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "Create the topic: kafka-topics.sh --create --topic {topic} --partitions 12 ..."
    " (or let the broker create it: sink.create_topics: true).",
    KafkaError._UNKNOWN_TOPIC: "Create the topic: kafka-topics.sh --create --topic {topic} --partitions 12 ..."
    " (or let the broker create it: sink.create_topics: true).",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Allow walrelay's principal to write the topic: kafka-acls.sh --add"
    " --allow-principal User:... --operation Write --operation Describe --topic {topic}",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Allow walrelay's principal IdempotentWrite on the cluster:"
    " kafka-acls.sh --add --allow-principal User:... --operation IdempotentWrite --cluster",
    KafkaError.TOPIC_EXCEPTION: "Topic names have letters, digits, '.', '_' and '-' and at most 249 of them;"
    " see route.topic and the row's own topic.",
    KafkaError.INVALID_RECORD: "The topic does not accept such a record; a compacted topic needs a key.",
    KafkaError.INVALID_MSG_SIZE: "Lower the size of the payload or raise the topic's max.message.bytes.",
    KafkaError.RECORD_LIST_TOO_LARGE: "Raise segment.bytes of the topic, or lower batch.size under sink.options.",
    KafkaError.POLICY_VIOLATION: "A policy of the broker forbids it; the broker's log says which.",
}


def is_refusal(error: KafkaError) -> bool:
    """Whether the message will be refused again; otherwise a new producer may well succeed."""
    return error.code() in _HINTS


def hint_for(error: KafkaError, message: Message) -> str:
    """What to do about it."""
    return _HINTS[error.code()].format(topic=message.topic) + " Then start walrelay again: nothing is lost."
