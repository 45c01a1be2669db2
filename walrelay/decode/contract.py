"""The obligations of every decoder, for either output plugin: frames in, events out."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from walrelay.lsn import LSN
from walrelay.model import Event

REQUIRED = frozenset({"id", "payload"})


Skips = frozenset[tuple[LSN, int | None]]
"""Commit LSN and ordinal of rows to skip if they cannot be read; ordinal None: all rows of the transaction. A
non-transactional message has its own LSN and None. What can be read is never skipped.
"""


class Columns(NamedTuple):
    """Which column of the outbox table has which role; None: the table has no such column.

    A role with a name must be in the table: a missing column stops the relay, because publishing without it would be a
    guess (guarantees A32).
    """

    id: str | None = "id"
    aggregate_type: str | None = "aggregate_type"
    aggregate_id: str | None = "aggregate_id"
    type: str | None = "type"
    payload: str | None = "payload"
    headers: str | None = "headers"
    topic: str | None = "topic"
    tenant_id: str | None = "tenant_id"
    created_at: str | None = "created_at"


class OutboxLayout(NamedTuple):
    """Where outbox records come from: one table, and logical messages with one prefix."""

    schema: str = "public"
    table: str = "outbox"
    columns: Columns = Columns()
    prefix: str | None = None  # of pg_logical_emit_message; None: logical messages are not ours
    skip_non_transactional: bool = False  # else one with our prefix stops the relay
    optional: frozenset[str] = frozenset()  # roles whose column may be missing or unreadable; else that is an error
    encoding: str = "UTF8"  # of the database: logical messages are sent in it
    extra: tuple[str, ...] = ()  # columns without a role that are read as text, for rules


class Decoder(Protocol):
    """Pure: no socket, no clock. Each connection needs a new one, because the server announces relations again."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        """The events of one CopyData payload (an XLogData or a keepalive, header included), in order.

        ProtocolError for what the protocol does not allow; Undecodable for a committed row that is not an outbox record
        under these settings, unless it is one to skip. After an error the decoder is not used again.
        """
        ...
