"""The SNS sink; the entry point names `plugin`."""

from walrelay.sinks.aws.sns.plugin import plugin

__all__ = ["plugin"]
