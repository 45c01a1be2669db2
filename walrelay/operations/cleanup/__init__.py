"""Cleaning the outbox: rows that were published, confirmed and are old enough; whole days where it is partitioned."""

from walrelay.operations.cleanup.cleanup import Cleanup
from walrelay.operations.cleanup.session import Session
from walrelay.operations.cleanup.tally import CleanupWish, Step, Tally

__all__ = ["Cleanup", "CleanupWish", "Session", "Step", "Tally"]
