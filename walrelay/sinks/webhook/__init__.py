"""The webhook sink; the entry point names `plugin`."""

from walrelay.sinks.webhook.plugin import plugin

__all__ = ["plugin"]
