"""walrelay: tails the WAL, decodes the outbox, routes, publishes, and confirms what is durable."""

__version__ = "0.1.0"
