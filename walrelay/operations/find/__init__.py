"""`walrelay find`: what happened to an event: when it was written, whether it was published, and where it is."""

from walrelay.operations.find.question import RowQuestion
from walrelay.operations.find.reading import read_back
from walrelay.operations.find.report import FoundRows, RowCopy, RowDeadLetter, TracedRow, iso, of_json
from walrelay.operations.find.run import look

__all__ = ["FoundRows", "RowCopy", "RowDeadLetter", "RowQuestion", "TracedRow", "iso", "look", "of_json", "read_back"]
