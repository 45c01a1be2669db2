"""Transactions that stay open: they hold the slot's restart_lsn back, whatever the relay confirms (PITFALLS A4)."""

from collections.abc import Iterator

from walrelay.model import Finding
from walrelay.source.catalog import Catalog
from walrelay.source.doctor.expected import Expected, ok, warning
from walrelay.wire.commands import literal

LONG = 60.0  # seconds


def open_transactions(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Those that wrote something and are older than a minute, prepared ones included; all databases count.

    Of other roles' sessions a role without pg_read_all_stats sees that they write, not since when: those it leaves out.
    """
    found = catalog.rows(
        """
        SELECT pid, coalesce(application_name, ''), coalesce(state, ''), NULL,
               extract(epoch FROM now() - xact_start)::int8
        FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL SELECT NULL, '', 'prepared', gid, extract(epoch FROM now() - prepared)::int8 FROM pg_prepared_xacts
        ORDER BY 5 DESC
        """
    )
    long = [each for each in found if each[4] is not None and each[4] >= LONG]
    for pid, name, state, gid, age in long:
        who = f"prepared transaction {gid!r}" if gid is not None else f"PID {pid} ({name or 'without a name'}, {state})"
        end = f"ROLLBACK PREPARED {literal(gid)};" if gid is not None else f"SELECT pg_terminate_backend({pid});"
        detail = f"{who} has been writing for {age} s: WAL is kept since then, and a slot cannot be made meanwhile"
        yield warning("open transactions", detail, end)
    if not long:
        yield ok("open transactions", f"none is older than {LONG:.0f} s")
