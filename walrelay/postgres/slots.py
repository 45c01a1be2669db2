"""Making and dropping slots.

A slot that CREATE_REPLICATION_SLOT makes exports the snapshot of its consistent point: what was committed before that
is visible in it, and everything else comes in the stream, so the two together have no gap and no overlap. The snapshot
can be used until the next command on the connection that made it (guarantees A27).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from psycopg import pq

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog, Slot, age
from walrelay.postgres.failures import of_result, sqlstate_of
from walrelay.wire.commands import create_slot, literal

_LOCK_NOT_AVAILABLE = "55P03"


class NewSlot(NamedTuple):
    """Where the slot's stream begins, and the snapshot of that point, usable while the connection is idle."""

    consistent_point: LSN
    snapshot: str


@contextmanager
def new_slot(
    dsn: str, beside: Catalog, slot: str, plugin: str, *, failover: bool, patience: float
) -> Iterator[NewSlot]:
    """Makes the slot on the server of the catalog; Fatal after `patience` seconds. The snapshot exists until the
    context is left.
    """
    connection = connect.replication(dsn)
    try:
        beside.refuse_another_server(connect.backend(connection))
        connection.patience = patience + 10.0  # beyond the wait for open transactions, which the server ends
        connect.answer(connection, f"SET lock_timeout = '{int(patience * 1000)}ms'")
        result = connect.answer(connection, create_slot(slot, plugin, failover=failover))
        if result.status != pq.ExecStatus.TUPLES_OK:
            if sqlstate_of(result) == _LOCK_NOT_AVAILABLE:
                raise blocked(beside, f"slot {slot}", patience)
            raise of_result(result, slot=slot, publication="")
        _, point, snapshot, *_ = [(result.get_value(0, column) or b"").decode() for column in range(result.nfields)]
        yield NewSlot(LSN.parse(point), snapshot)
    finally:
        connection.close()


def blocked(catalog: Catalog, what: str, patience: float) -> Fatal:
    """Making a slot waits for all transactions that were writing when it began (guarantees A28)."""
    writers = catalog.rows(
        f"SELECT pid, coalesce(application_name, ''), state, round({age('xact_start')})"
        " FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5"
    )
    listed = "; ".join(f"PID {pid} {name!r} {state}, open for {seconds} s" for pid, name, state, seconds in writers)
    return Fatal(
        f"{what} was not made within {patience:g} s: it waits for open transactions ({listed or 'none seen now'})",
        hint="End those transactions (SELECT pg_terminate_backend(PID)), or give `walrelay init --timeout` more time;"
        " running it again goes on where it stopped.",
        page="server",
    )


_DROP = (
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
    " WHERE slot_name = %s AND database = current_database()"
)


def drop_slot(catalog: Catalog, slot: str) -> bool:
    """Drops the slot of this database, and no other; returns whether there was one. Fatal if a process reads it."""
    return unread(catalog, slot) is not None and bool(catalog.rows(_DROP, slot))


def unread(catalog: Catalog, slot: str) -> Slot | None:
    """The slot, if there is one; Fatal if a process reads it."""
    found = catalog.slot(slot)
    if found is not None and found.active_pid is not None:
        raise Fatal(
            f"slot {slot!r} is in use by PID {found.active_pid}",
            hint="Stop the relay first, then drop again.",
            page="server",
        )
    return found


def without_two_phase(slot: str) -> str:
    """SQL that copies the slot under another name, without two_phase, and back; a copy has the slot's position."""
    name, copy = literal(slot), literal(f"{slot[:58]}_copy")
    return (
        f"SELECT pg_copy_logical_replication_slot({name}, {copy}); SELECT pg_drop_replication_slot({name});"
        f" SELECT pg_copy_logical_replication_slot({copy}, {name}); SELECT pg_drop_replication_slot({copy});"
    )
