"""The one examination of PostgreSQL: all that must be true before a start, asked without changing anything."""

from walrelay.operations.doctor.examination import Command, examine, refuse, refuse_connection, told
from walrelay.operations.doctor.expected import Expected

__all__ = ["Command", "Expected", "examine", "refuse", "refuse_connection", "told"]
