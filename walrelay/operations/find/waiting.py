"""Which events wait in a slot that nobody reads: read without moving it, for a second at most, as a relay that starts
has to wait for that. On the connection that is there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from walrelay.errors import WalrelayError
from walrelay.model import OutboxRecord
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import PostgresError
from walrelay.wire.frames import xlogdata
from walrelay.wiring import Wiring

_LOOK = 1.0  # seconds that the server may decode for
_FLUSHED, _PAUSE = 1.0, 0.05  # seconds: PostgreSQL writes WAL at the latest after three times wal_writer_delay
_MOST = 4000  # rows of the answer; a record is one of several
_PEEK = b"""
    SELECT (lsn - '0/0')::int8, data
    FROM pg_logical_slot_peek_binary_changes(%s::name, NULL, %s::int4, VARIADIC %s::text[])
"""


class WaitingInSlot(NamedTuple):
    """The ids of the first events that wait; `complete`: there are no others. `since`: when the first was committed, in
    microseconds since 1970.
    """

    ids: frozenset[str] = frozenset()
    complete: bool = False
    since: int | None = None


def waiting_in_slot(wiring: Wiring, catalog: Catalog, wait: Callable[[float], object]) -> WaitingInSlot:
    """Nothing where the slot is in use by now, or cannot be read. Rows that are visible now are among them, unless
    their WAL was not written yet (synchronous_commit = off): then these are not complete.
    """
    ids, since, count = set[str](), None, 0
    written = _is_written(catalog, wait)
    connection = catalog.connection
    try:
        decode = wiring.decoder(wiring.needed, encoding=catalog.server_encoding(), binary=False).decode
        options = [text for option in wiring.options(binary=False) for text in option]
        with connection.transaction():
            connection.execute(f"SET LOCAL statement_timeout = {int(_LOOK * 1000)}".encode())
            parameters: Any = (wiring.slot, _MOST, options)
            for lsn, data in connection.cursor().stream(_PEEK, parameters, binary=True):
                count += 1
                for event in decode(xlogdata(lsn, lsn, data)):
                    if isinstance(event, OutboxRecord):
                        ids.add(event.id)
                        since = event.committed_at if since is None else since
    except (PostgresError, WalrelayError):
        return WaitingInSlot(frozenset(ids), False, since)
    return WaitingInSlot(frozenset(ids), written and count < _MOST, since)


def _is_written(catalog: Catalog, wait: Callable[[float], object]) -> bool:
    """Whether the WAL is flushed up to where it ends now, if need be in a moment."""
    end, waited = catalog.current_lsn(), 0.0
    while not catalog.value("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", str(end)) and waited < _FLUSHED:
        wait(_PAUSE)
        waited += _PAUSE
    return waited < _FLUSHED
