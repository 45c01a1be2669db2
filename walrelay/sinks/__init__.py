"""Sinks: one adapter per broker, each a plug-in by entry point; nothing imports them by name."""
