"""The table walrelay.dead_letters: what the relay writes there, and what `walrelay dlq` reads and changes."""

from walrelay.dead_letters.filtering import OPEN, DeadLetterFilter, DeadLetterPlace
from walrelay.dead_letters.handling import DeadLetterTable, StoredDeadLetter
from walrelay.dead_letters.store import DeadLetterTableWriter
from walrelay.dead_letters.tenants import TenantFilter

__all__ = [
    "OPEN",
    "DeadLetterFilter",
    "DeadLetterPlace",
    "DeadLetterTable",
    "DeadLetterTableWriter",
    "StoredDeadLetter",
    "TenantFilter",
]
