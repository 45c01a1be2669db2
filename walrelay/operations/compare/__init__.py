"""`walrelay compare`: what two publishers of the same events made of them, message by message."""

from walrelay.operations.compare.fields import ComparedField
from walrelay.operations.compare.marks import Marked
from walrelay.operations.compare.report import CompareReport, Deviation
from walrelay.operations.compare.run import CompareRequest, comparing

__all__ = ["CompareReport", "CompareRequest", "ComparedField", "Deviation", "Marked", "comparing"]
