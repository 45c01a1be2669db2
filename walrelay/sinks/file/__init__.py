"""The file sink; the entry point names `plugin`."""

from walrelay.sinks.file.plugin import plugin

__all__ = ["plugin"]
