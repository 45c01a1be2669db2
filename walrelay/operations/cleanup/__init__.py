"""What becomes of published rows: old ones are deleted, whole days of a partitioned outbox dropped, marks set."""

from walrelay.operations.cleanup.batches import Session
from walrelay.operations.cleanup.cleanup import cleaning
from walrelay.operations.cleanup.marking import Marking
from walrelay.operations.cleanup.request import (
    CleanupReport,
    CleanupRequest,
    CleanupStep,
    age_to_clean,
    pages_to_clean,
)
from walrelay.operations.cleanup.retention import Retention

__all__ = [
    "CleanupReport",
    "CleanupRequest",
    "CleanupStep",
    "Marking",
    "Retention",
    "Session",
    "age_to_clean",
    "cleaning",
    "pages_to_clean",
]
