"""The doctor's questions about PostgreSQL: all that must be true before a start, asked without changing anything."""

from walrelay.source.doctor.examination import examine
from walrelay.source.doctor.expected import Expected

__all__ = ["Expected", "examine"]
