"""What applications write events with: `Outbox().emit(connection, Event(...))` in the transaction of the business rows.

`walrelay.outbox.sqlalchemy` and `walrelay.outbox.django` write the events that aggregates record.
"""

from walrelay.connections import OutsideTransaction, UnknownConnection
from walrelay.outbox.emitting import EventTooLarge, Outbox
from walrelay.outbox.events import Event, Json
from walrelay.outbox.ids import uuid7
from walrelay.outbox.surroundings import consuming, context
from walrelay.outbox.typed import Registry, UnknownEvent, event, registry

__all__ = [
    "Event",
    "EventTooLarge",
    "Json",
    "Outbox",
    "OutsideTransaction",
    "Registry",
    "UnknownConnection",
    "UnknownEvent",
    "consuming",
    "context",
    "event",
    "registry",
    "uuid7",
]
