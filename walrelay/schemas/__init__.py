"""Payloads by the schemas of a Confluent Schema Registry. Imported only where the settings name one: it needs what the
extra `schemas` installs.
"""

from walrelay.schemas.registry import SchemaRegistry

__all__ = ["SchemaRegistry"]
