"""The Redis Streams sink; the entry point names `plugin`."""

from walrelay.sinks.redis.plugin import plugin

__all__ = ["plugin"]
