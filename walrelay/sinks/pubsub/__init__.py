"""The Google Pub/Sub sink; the entry point names `plugin`."""

from walrelay.sinks.pubsub.plugin import plugin

__all__ = ["plugin"]
