"""Debezium's Outbox Event Router: the same messages from the same rows. Pure; docs/decisions/0030 says where not."""

from walrelay.route.debezium.options import DebeziumOptions, Placement, faults
from walrelay.route.debezium.router import DebeziumRouter, DebeziumTopics
from walrelay.route.debezium.types import CatalogColumn, Modes

__all__ = ["CatalogColumn", "DebeziumOptions", "DebeziumRouter", "DebeziumTopics", "Modes", "Placement", "faults"]
