"""The PostgreSQL sink: tables of another database; the entry point names `plugin`."""

from walrelay.sinks.postgres.plugin import plugin

__all__ = ["plugin"]
