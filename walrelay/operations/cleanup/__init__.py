"""What becomes of published rows: old ones are deleted, whole days of a partitioned outbox dropped, marks set."""

from walrelay.operations.cleanup.batches import Session
from walrelay.operations.cleanup.cleanup import CleanupReport, CleanupRequest, CleanupStep, cleaning
from walrelay.operations.cleanup.marking import Marking
from walrelay.operations.cleanup.retention import Retention

__all__ = ["CleanupReport", "CleanupRequest", "CleanupStep", "Marking", "Retention", "Session", "cleaning"]
