"""The inbox: whether a consumer has received a message before, in the transaction that handles it.

The row for it is inserted before the handler's own statements and committed with them, so both are there or
neither is. If two transactions have the same message, the second waits at the primary key until the first has ended: it
is then a repetition, or, if the first was rolled back, the first.
"""

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from walrelay.connections import Statement, Steps
from walrelay.ddl import script
from walrelay.inbox import marks
from walrelay.inbox.block import Block, done
from walrelay.inbox.identity import Identity, text_of
from walrelay.inbox.table import Table, executed, forgotten
from walrelay.inbox.tracing import consuming_span


class Inbox:
    """`table` must exist (`sql()`, or `create`). `by_position`: see `walrelay.inbox.marks` for when it holds."""

    def __init__(self, table: str = "public.inbox", *, by_position: bool = False) -> None:
        self._table, self._by_position = Table(table), by_position

    def receive(self, connection: object, *, consumer: str, message_id: str | bytes | UUID | Identity) -> Block[bool]:
        """`with inbox.receive(...) as first:`, or `async with` for an async connection, around the handler.

        `first` is False if this consumer has received the message before, and there is nothing to do. Never commits:
        the message counts as received once the application has committed. An exception that leaves the block removes
        the receipt. OutsideTransaction where each statement would be committed by itself, ValueError for a message
        without an id. Under REPEATABLE READ and SERIALIZABLE a duplicate that is committed meanwhile is PostgreSQL's
        serialization failure (40001): begin the transaction again, as for any of them.
        """
        given = message_id if isinstance(message_id, Identity) else Identity(text_of(message_id) or "")
        if not given.id:  # the second message without one would count as a repetition
            raise ValueError(f"the message has no id: message_id is {message_id!r}")
        identity = given._replace(id=text_of(given.id) or "") if "\0" in given.id else given
        begin, around = partial(self._received, consumer, identity), partial(consuming_span, consumer, identity)
        return Block(connection, "Inbox.receive", begin, around=around)

    def forget(self, connection: object, *, older_than: timedelta) -> Any:
        """Deletes receipts by their age, 1,000 a statement; returns how many (to be awaited on an async connection).

        On a connection in autocommit each statement is a transaction of its own, which suits a large table. A message
        that comes again after it was forgotten is first again: `older_than` must exceed the age of any repetition.
        """
        return done(connection, forgotten(self._table, "received_at", older_than))

    def create(self, connection: object) -> Any:
        """Creates the tables if they do not exist; to be awaited on an async connection. Does not commit either."""
        return done(connection, executed(self.sql()))

    def sql(self) -> str:
        """What `create` executes, for a migration."""
        index = self._table.index("received_at")
        return script("inbox", table=self._table.quoted, marks=self._table.beside("_marks"), index=index)

    def _received(self, consumer: str, identity: Identity) -> Steps[bool]:
        if self._by_position and marks.decides(identity):
            text = marks.statement(self._table.quoted, self._table.beside("_marks"))
            return bool((yield Statement(text, marks.parameters(consumer, identity), answers=True)))
        rows = yield Statement(
            f"INSERT INTO {self._table.quoted} (consumer, message_id) VALUES (:consumer, :id)"
            " ON CONFLICT (consumer, message_id) DO NOTHING RETURNING 1",
            {"consumer": consumer, "id": identity.id},
            answers=True,
        )
        return bool(rows)
