"""Emitting: an event becomes a row of the outbox (or a logical message) in the transaction of a connection."""

import json
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol, cast, overload
from uuid import UUID

from walrelay.connections import AnyConnection, AsyncConnection, SyncConnection, is_async, joined, run, run_async
from walrelay.connections.sqlstates import sqlstate
from walrelay.outbox.events import Event
from walrelay.outbox.payload import json_text, most_bytes, refuse_other_than_json
from walrelay.outbox.rows import ROLES, TYPES, LogicalMessages, OutboxTable, Written
from walrelay.outbox.surroundings import captured, tenant
from walrelay.outbox.typed import Registry, registry

_UNDEFINED_TABLE = "42P01"
_RELAYS_OWN = 256  # bytes of the headers id and position, and of a record's frame


class EventTooLarge(ValueError):
    """The event is too large for the broker, so it was not written."""


class Awaiting(Protocol):
    """An async connection; with it type checkers report a forgotten `await`."""

    async def execute(self, *args: Any, **kwargs: Any) -> Any: ...


class Outbox:
    """Where events are written. It holds no state of a transaction: one for the whole application is enough."""

    def __init__(
        self,
        table: str = "public.outbox",
        *,
        columns: Mapping[str, str | None] | None = None,
        types: Mapping[str, str] | None = None,
        storage: Literal["row", "deleted_row", "message"] = "row",
        prefix: str = "walrelay",
        max_message_bytes: int = 1_000_000,
        tenant_required: bool = False,
        registry: Registry = registry,
    ) -> None:
        """`table`, `columns` and `prefix` as in the relay's settings (outbox.table, outbox.columns,
        outbox.messages.prefix); `types`: of columns that are not as `walrelay init` makes them, by role
        (`{"id": "text", "payload": "bytea"}`).

        `storage`: "row": it stays until `walrelay cleanup`, and can be replayed. "deleted_row": it is deleted in the
        same transaction. "message": there is no row, and no table is needed. `max_message_bytes`: what the broker takes
        (Kafka's topics and librdkafka: 1,000,000 unless set otherwise). `tenant_required`: an event without a tenant is
        a ValueError, where its context got lost on the way for example (in a thread).
        """
        if unknown := sorted({*(columns or {}), *(types or {})} - set(ROLES)):
            raise ValueError(f"{', '.join(unknown)}: the roles of columns are {', '.join(ROLES)}")
        named = {**{role: role for role in ROLES}, **(columns or {})}
        if lacking := [role for role in ("id", "payload") if named[role] is None]:
            raise ValueError(f"an outbox has a column for {' and '.join(lacking)}")
        self._storage, self._limit, self._registry = storage, max_message_bytes, registry
        self._tenant_required = tenant_required
        kinds = TYPES if storage == "message" else {**TYPES, **(types or {})}
        self._table = OutboxTable(table, named, kinds, delete=storage == "deleted_row")
        self._writing = LogicalMessages(prefix) if storage == "message" else self._table

    @overload
    def emit(self, connection: Awaiting, event: object) -> Coroutine[Any, Any, UUID]: ...  # type: ignore[overload-overlap]
    @overload
    def emit(self, connection: object, event: object) -> UUID: ...
    def emit(self, connection: object, event: object) -> UUID | Coroutine[Any, Any, UUID]:
        """Writes an Event, or an instance of a registered class, in the connection's transaction; returns its id.

        Await it on an async connection. OutsideTransaction if the connection would commit the event by itself,
        EventTooLarge if the broker would refuse it, UnknownEvent, UnknownConnection; otherwise errors are those of the
        connection's library. Nothing is committed here.
        """
        written = self._written(event)
        link = joined(connection)
        if is_async(link):
            return self._emit_async(link, written)
        return self._emit(cast(SyncConnection, link), written)

    @overload
    def emit_many(  # type: ignore[overload-overlap]
        self, connection: Awaiting, events: Iterable[object]
    ) -> Coroutine[Any, Any, list[UUID]]: ...
    @overload
    def emit_many(self, connection: object, events: Iterable[object]) -> list[UUID]: ...
    def emit_many(self, connection: object, events: Iterable[object]) -> list[UUID] | Coroutine[Any, Any, list[UUID]]:
        """Like `emit`, for many events in order: by COPY with psycopg and asyncpg; otherwise, and under row level
        security, by one INSERT a thousand.
        """
        written = [self._written(event) for event in events]
        link = joined(connection)
        if is_async(link):
            return self._emit_many_async(link, written)
        self._emit_many(cast(SyncConnection, link), written)
        return [each.id for each in written]

    def _emit(self, link: SyncConnection, written: Written) -> UUID:
        link.require_transaction("an event was to be emitted")
        with self._missed():
            run(link, self._writing.one(written))
        return written.id

    def _emit_many(self, link: SyncConnection, written: Sequence[Written]) -> None:
        link.require_transaction("events were to be emitted")
        with self._missed():
            if (columns := self._copied(link, written)) and not run(link, self._table.has_policies()):
                link.copy(self._table.name, columns, self._table.lines(written))
            else:
                run(link, self._writing.many(written))

    async def _emit_async(self, link: AsyncConnection, written: Written) -> UUID:
        await link.require_transaction("an event was to be emitted")
        with self._missed():
            await run_async(link, self._writing.one(written))
        return written.id

    async def _emit_many_async(self, link: AsyncConnection, written: Sequence[Written]) -> list[UUID]:
        await link.require_transaction("events were to be emitted")
        with self._missed():
            if (columns := self._copied(link, written)) and not await run_async(link, self._table.has_policies()):
                await link.copy(self._table.name, columns, self._table.lines(written))
            else:
                await run_async(link, self._writing.many(written))
        return [each.id for each in written]

    @contextmanager
    def _missed(self) -> Iterator[None]:
        """Adds a note to the library's own error where the table does not exist."""
        try:
            yield
        except Exception as error:
            if sqlstate(error) == _UNDEFINED_TABLE:
                error.add_note(
                    f"`walrelay init` makes the outbox of its settings; this one writes {'.'.join(self._table.name)}"
                )
            raise

    def _copied(self, link: AnyConnection, written: Sequence[Written]) -> list[str]:
        """The columns to COPY into; none where INSERT has to be used."""
        return self._table.columns if self._storage == "row" and written and link.copies() else []

    def _written(self, event: object) -> Written:
        given = event if isinstance(event, Event) else self._registry.envelope(event)
        payload, size = self._payload(given)
        headers = {**captured(), **given.headers} if "headers" in self._table.roles else given.headers
        values = {
            "id": str(given.id),
            "aggregate_type": given.aggregate_type,
            "aggregate_id": str(given.aggregate_id),
            "type": given.type,
            "payload": payload,
            "headers": json.dumps(headers, ensure_ascii=False) if headers or "headers" in self._table.roles else None,
            "topic": given.topic,
            "tenant_id": tenant() if given.tenant_id is None else given.tenant_id,
        }
        self._check(given, values, size)
        return Written(given.id, values)

    def _payload(self, event: Event) -> tuple[str | None, int]:
        """The payload as the statements take it, and the size of the message's value in bytes."""
        kind, payload = self._table.types["payload"], event.payload
        if kind == "bytea":
            value = payload if isinstance(payload, bytes | None) else (json_text(payload) or "").encode()
            return (None, 0) if value is None else (value.hex(), len(value))
        if isinstance(payload, bytes):
            raise ValueError(f"event {event.type}: the payload is bytes, and the outbox's is {kind}: pass Json(text)")
        text = json_text(payload)
        if text is not None and self._storage == "message":
            refuse_other_than_json(event.type, text)
        encoded = b"" if text is None else text.encode()
        return text, most_bytes(encoded) if kind == "jsonb" else len(encoded)

    def _check(self, event: Event, values: Mapping[str, str | None], size: int) -> None:
        """Refuses an event that would lose a value for lack of a column, or that no broker would take."""
        explicit = {"topic": event.topic, "tenant_id": event.tenant_id, "headers": values["headers"]}
        if lost := [role for role, value in explicit.items() if value is not None and role not in self._table.roles]:
            raise ValueError(f"event {event.type} has {', '.join(lost)}, but the outbox has no column for it")
        if self._tenant_required and values["tenant_id"] is None:
            raise ValueError(
                f"event {event.type} of {event.aggregate_type} {event.aggregate_id} has no tenant_id, and the context"
                " has none either: a new thread does not inherit the context, and a sync dependency of FastAPI cannot"
                " set it"
            )
        around = sum(len((values[role] or "").encode()) for role in ("aggregate_id", "type", "headers"))
        if size + around + _RELAYS_OWN > self._limit:
            raise EventTooLarge(
                f"event {event.type} of {event.aggregate_type} {event.aggregate_id} is too large: {size:,} bytes of"
                f" payload and {around:,} of headers and key, and a message may have {self._limit:,}. Nothing was"
                " written. Put the content somewhere else and its address into the event; or raise the broker's limit"
                " (Kafka: max.message.bytes of the topic, and sink.options message.max.bytes), then max_message_bytes."
            )
