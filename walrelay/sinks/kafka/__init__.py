"""The Kafka sink. Durable means: acknowledged by all in-sync replicas (acks=all), once and in order (idempotence)."""

from walrelay.sinks.kafka.plugin import plugin

__all__ = ["plugin"]
