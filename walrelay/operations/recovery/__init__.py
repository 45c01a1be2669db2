"""`walrelay recover`: what a lost slot had not delivered, and which rows were deleted before they were published."""

from walrelay.operations.recovery.plan import KeptPosition, Recovery, RecoveryRequest, plan_recovery

__all__ = ["KeptPosition", "Recovery", "RecoveryRequest", "plan_recovery"]
