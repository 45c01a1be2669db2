"""The EventBridge sink; the entry point names `plugin`."""

from walrelay.sinks.aws.eventbridge.plugin import plugin

__all__ = ["plugin"]
