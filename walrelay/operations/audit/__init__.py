"""`walrelay audit`: the table compared with the topics."""

from walrelay.operations.audit.reconciliation import AuditReport
from walrelay.operations.audit.run import AuditStopped, Period, audit

__all__ = ["AuditReport", "AuditStopped", "Period", "audit"]
