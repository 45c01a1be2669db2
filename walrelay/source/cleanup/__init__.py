"""Cleaning the outbox: rows that were published, confirmed and are old enough; whole days where it is partitioned."""

from walrelay.source.cleanup.cleanup import Cleanup
from walrelay.source.cleanup.session import Session
from walrelay.source.cleanup.tally import CleanupWish, Step, Tally

__all__ = ["Cleanup", "CleanupWish", "Session", "Step", "Tally"]
