"""The RabbitMQ sink; the entry point names `plugin`."""

from walrelay.sinks.rabbitmq.plugin import plugin

__all__ = ["plugin"]
