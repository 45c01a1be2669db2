"""The settings file: read and checked as a whole. `config.documentation` describes it."""

from walrelay.config.models import Settings
from walrelay.config.reading import load, parse

__all__ = ["Settings", "load", "parse"]
