"""The SQS sink; the entry point names `plugin`."""

from walrelay.sinks.aws.sqs.plugin import plugin

__all__ = ["plugin"]
