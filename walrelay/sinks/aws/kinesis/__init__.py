"""The Kinesis sink; the entry point names `plugin`."""

from walrelay.sinks.aws.kinesis.plugin import plugin

__all__ = ["plugin"]
