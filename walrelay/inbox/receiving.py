"""The inbox: whether a consumer has received a message before, told in the transaction that handles it.

The row that says so is inserted before the handler's own statements and committed with them, so both are there or
neither is. Of two transactions with the same message the second waits at the primary key until the first has ended: it
then comes second, or, if that was rolled back, first.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from walrelay.connections import Statement, Steps
from walrelay.ddl import script
from walrelay.inbox import marks
from walrelay.inbox.block import Block, done
from walrelay.inbox.identity import Identity, text_of
from walrelay.inbox.table import Table, executed, forgotten


class Inbox:
    """`table` must exist (`sql()`, or `create`). `by_position`: see `walrelay.inbox.marks` for when it holds."""

    def __init__(self, table: str = "public.inbox", *, by_position: bool = False) -> None:
        self._table, self._by_position = Table(table), by_position

    def receive(self, connection: object, *, consumer: str, message_id: str | bytes | UUID | Identity) -> Block[bool]:
        """`with inbox.receive(...) as first:`, or `async with` for an async connection, around the handler.

        `first` is False if this consumer has received the message before, and there is nothing to do. Never commits:
        that is the application's, and only then counts the message as received. An exception that leaves the block
        takes the receipt with it. OutsideTransaction where each statement would be committed by itself, ValueError for
        a message without an id. Under REPEATABLE READ and SERIALIZABLE a duplicate that is committed meanwhile is
        PostgreSQL's serialization failure (40001): begin the transaction again, as for any of them.
        """
        given = message_id if isinstance(message_id, Identity) else Identity(text_of(message_id) or "")
        if not given.id:  # the second message without one would count as a repetition
            raise ValueError(f"the message has no id: message_id is {message_id!r}")
        identity = given._replace(id=text_of(given.id) or "") if "\0" in given.id else given
        return Block(connection, "Inbox.receive", lambda: self._received(consumer, identity))

    def forget(self, connection: object, *, older_than: timedelta) -> Any:
        """Deletes receipts by their age, 1,000 a statement; returns how many (to be awaited on an async connection).

        On a connection in autocommit each statement is a transaction of its own, which is what a large table wants.
        A message that comes again after it was forgotten is first again: be older than anything can be repeated.
        """
        return done(connection, forgotten(self._table, "received_at", older_than))

    def create(self, connection: object) -> Any:
        """The tables, if they are not there; to be awaited on an async connection. Commits nothing either."""
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
