"""The settings file: read and checked as a whole. `config.documentation` and `config.schema` describe it."""

from walrelay.config.models import Settings
from walrelay.config.reading import load, parse

__all__ = ["Settings", "load", "parse"]
