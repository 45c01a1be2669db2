"""The Azure Service Bus sink; the entry point names `plugin`."""

from walrelay.sinks.servicebus.plugin import plugin

__all__ = ["plugin"]
