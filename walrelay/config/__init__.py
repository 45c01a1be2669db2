"""The settings file: read, checked as a whole, and described for people and editors."""

from walrelay.config.documentation import example, reference
from walrelay.config.models import Settings
from walrelay.config.reading import load, parse
from walrelay.config.schema import json_schema

__all__ = ["Settings", "example", "json_schema", "load", "parse", "reference"]
