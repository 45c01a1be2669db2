"""The doctor: checks everything that must be true before a start, and changes nothing."""

from walrelay.operations.doctor.examination import (
    BY_ANOTHER_ROLE,
    Command,
    examine,
    no_events,
    refuse,
    refuse_connection,
    told,
)

__all__ = ["BY_ANOTHER_ROLE", "Command", "examine", "no_events", "refuse", "refuse_connection", "told"]
