"""Cleans the outbox: deletes old rows that are published and confirmed, or drops whole days of a partitioned outbox."""

from walrelay.operations.cleanup.batches import Session
from walrelay.operations.cleanup.cleanup import CleanupReport, CleanupRequest, CleanupStep, cleaning
from walrelay.operations.cleanup.retention import Retention

__all__ = ["CleanupReport", "CleanupRequest", "CleanupStep", "Retention", "Session", "cleaning"]
