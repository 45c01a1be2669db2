"""An event, as an application writes it to the outbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from walrelay.outbox.ids import uuid7

RESERVED = frozenset({"id", "type", "position", "replayed"})
"""Headers that walrelay gives each message itself."""


def key_text(aggregate_id: object) -> str:
    """ValueError for None: it would become the text "None"."""
    if aggregate_id is None:
        raise ValueError(
            "aggregate_id is None. If the database makes the key: flush (or save) first, or record a function, which is"
            " called when the key is known"
        )
    return str(aggregate_id)


class Json(str):
    """Text that is JSON already; a plain str becomes a JSON string."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Event:
    """One row of the outbox.

    `aggregate_type` and `aggregate_id`: what the event is about; by default the first makes the topic, and the second
    is the message's key, which keeps the events of one aggregate in order. `type`: what happened. `payload`: the
    message's value: anything that JSON can express, a pydantic model or a dataclass; `Json` is passed on as it is,
    `bytes` are for an outbox whose payload is bytea, and None is no value, which deletes the key from a compacted
    topic. `headers`: in addition to those of the context. `topic`: for this event alone. `tenant_id`: that of the
    context if None.

    ValueError for an event that no outbox would take, or that the relay could not publish.
    """

    aggregate_type: str
    aggregate_id: str | int | UUID
    type: str
    payload: object = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    topic: str | None = None
    tenant_id: str | None = None
    id: UUID = field(default_factory=uuid7)

    def __post_init__(self) -> None:
        for name in ("aggregate_type", "type", "topic"):
            if getattr(self, name) == "":
                raise ValueError(f"{name} is empty")
        key_text(self.aggregate_id)
        for name in ("aggregate_type", "aggregate_id", "type", "topic", "tenant_id"):
            if "\0" in str(getattr(self, name)):
                raise ValueError(f"{name} contains a zero byte, which PostgreSQL cannot store in text")
        if reserved := sorted(RESERVED & self.headers.keys()):
            raise ValueError(f"header {', '.join(reserved)} is reserved: walrelay sets it itself")
        for name, value in self.headers.items():
            if not isinstance(name, str) or not isinstance(value, str | None):
                raise ValueError(f"header {name!r}: {value!r}: names and values are text (a value may be None)")
