"""Brokers that a demo or a benchmark publishes to, started beside it or the user's: a module for each kind."""
