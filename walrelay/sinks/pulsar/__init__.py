"""The Pulsar sink; the entry point names `plugin`."""

from walrelay.sinks.pulsar.plugin import plugin

__all__ = ["plugin"]
