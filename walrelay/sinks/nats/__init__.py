"""The NATS JetStream sink; the entry point names `plugin`."""

from walrelay.sinks.nats.plugin import plugin

__all__ = ["plugin"]
