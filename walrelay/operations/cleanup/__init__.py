"""Cleaning the outbox: rows that were published, confirmed and are old enough; whole days where it is partitioned."""

from walrelay.operations.cleanup.batches import Session
from walrelay.operations.cleanup.cleanup import CleanupReport, CleanupRequest, Step, cleaning
from walrelay.operations.cleanup.retention import Retention

__all__ = ["CleanupReport", "CleanupRequest", "Retention", "Session", "Step", "cleaning"]
