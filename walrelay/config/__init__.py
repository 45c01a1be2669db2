"""The settings file: read and checked as a whole. `config.documentation` describes it."""

from walrelay.config.models import Settings
from walrelay.config.reading import load, load_relays, parse

__all__ = ["Settings", "load", "load_relays", "parse"]
