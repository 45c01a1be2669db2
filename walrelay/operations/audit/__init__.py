"""`walrelay audit`: the table compared with the topics."""

from walrelay.operations.audit.reconciliation import Report
from walrelay.operations.audit.run import Period, audit

__all__ = ["Period", "Report", "audit"]
