"""How long the oldest event that is not confirmed has waited: its commit to now, both by the server's clock.

PostgreSQL's own flush_lag is that of the last status update: it does not change while nothing is confirmed, which is
when it is wanted. So the leader reports what it waits for in the application name of its control connection: that costs
no write, and pg_stat_activity shows it to every role. While no relay reads the slot, its first transaction is read
instead, for a second at most: a check must not cost the server more, and a relay that starts finds the slot free again.
"""

from collections.abc import Sequence
from time import monotonic, sleep

from walrelay.errors import WalrelayError
from walrelay.postgres.catalog import Catalog, Slot, age
from walrelay.postgres.failures import PostgresError
from walrelay.postgres.locks import lock_key
from walrelay.wire import pgoutput
from walrelay.wire.commands import pgoutput_options
from walrelay.wire.frames import xlogdata

_REPORT_PAUSE = 1.0  # seconds between two reports
_LOOK = 1.0  # seconds that the server may decode for

_NOW = "extract(epoch FROM clock_timestamp())::float8"


class WaitReport:
    """The leader's side: the application name of its control connection says what the relay waits for."""

    def __init__(self, catalog: Catalog, slot: str) -> None:
        self._catalog, self._mark = catalog, _mark(slot)
        self._name = ""  # what the connection was called before
        self._reported: int | None = None
        self._reported_at = 0.0

    def report_waiting(self, since: int | None) -> None:
        """See `Source`."""
        now = monotonic()
        if since != self._reported and now - self._reported_at >= _REPORT_PAUSE:
            if self._reported is None:
                self._name = self._catalog.connection.info.parameter_status("application_name") or ""
            name = self._name if since is None else f"{self._mark} {since}"
            self._catalog.rows("SELECT set_config('application_name', %s, false)", name)
            self._reported, self._reported_at = since, now


_REPORTED = (
    f"SELECT reported.part[1], max({_NOW} - reported.part[2]::float8 / 1000000) FROM pg_stat_activity,"
    " LATERAL regexp_match(application_name, '^(walrelay waits [0-9a-f]{16}) ([0-9]+)$') AS reported (part)"
    " WHERE reported.part[1] = ANY (%s) GROUP BY 1"
)


_UNREAD = (
    "SELECT slot_name::text, pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(sent_lsn, confirmed_flush_lsn))::float8,"
    " sent_lsn IS NOT NULL FROM pg_replication_slots LEFT JOIN pg_stat_replication ON pid = active_pid"
    " WHERE active_pid IS NOT NULL AND slot_name = ANY (%s) AND database = current_database()"
)
_NEAR = 2**20, 2**24  # bytes of WAL that a walsender may be behind; the second where this role may not see it


def lags(catalog: Catalog, slots: Sequence[str]) -> dict[str, float | None]:
    """The ages in seconds of the oldest events that wait, for slots that are read or led, in two statements. None: not
    known, because the WAL is not read to its end: the walsender may be decoding a large transaction.
    """
    unread = catalog.rows(_UNREAD, [*slots])
    found: dict[str, float | None] = {slot: 0.0 if behind <= _NEAR[not seen] else None for slot, behind, seen in unread}
    return found | reported_lags(catalog, slots)


def reported_lags(catalog: Catalog, slots: Sequence[str]) -> dict[str, float]:
    """The ages in seconds that the slots' leaders report, in one statement. A slot whose leader reports nothing, or
    that nobody leads, is left out.
    """
    reported = dict(catalog.rows(_REPORTED, [_mark(slot) for slot in slots]))
    return {slot: max(0.0, float(reported[mark])) for slot in slots if (mark := _mark(slot)) in reported}


def lag_seconds(catalog: Catalog, slot: Slot, publication: str | None, *, messages: bool) -> float | None:
    """The age in seconds of the oldest event that waits in the slot; None if it is not known. `publication`: None for
    wal2json. `messages`: whether logical messages may be events. A slot that is read is waited for, for a second at
    most: until its walsender has read all WAL that there is now, nothing says that no event waits.
    """
    if slot.active_pid is None:
        reported = reported_lags(catalog, [slot.name]).get(slot.name)  # a leader that retries has no stream
        found = _of_an_idle_slot(catalog, slot, publication, messages=messages)
        return reported if found is None else max(found, reported or 0.0)
    end, until = catalog.value("SELECT pg_current_wal_lsn()::text"), monotonic() + _LOOK
    while (found := lags(catalog, [slot.name]).get(slot.name)) is None and monotonic() < until:
        if catalog.value(_READ_TO, end, slot.active_pid):
            return 0.0
        sleep(_LOOK / 10)
    return found


_READ_TO = "SELECT sent_lsn >= %s::pg_lsn FROM pg_stat_replication WHERE pid = %s"


def _of_an_idle_slot(catalog: Catalog, slot: Slot, publication: str | None, *, messages: bool) -> float | None:
    """If its first transaction says nothing, how long no process has read the slot (PostgreSQL 17 and later): no event
    has waited for longer.
    """
    if publication is not None and slot.plugin == "pgoutput":
        found = _of_the_first_transaction(catalog, slot.name, publication, messages=messages)
        if found is not None:
            return found
    if catalog.server_version < 170000:
        return None
    idle = catalog.value(
        f"SELECT {age('inactive_since')}::float8 FROM pg_replication_slots"
        " WHERE slot_name = %s AND database = current_database()",
        slot.name,
    )
    return None if idle is None else float(idle)


def _of_the_first_transaction(catalog: Catalog, slot: str, publication: str, *, messages: bool) -> float | None:
    """The age of the first transaction with something for the publication; 0.0 if there is none; None if that was not
    found out. PostgreSQL 14 also returns transactions without anything for the publication, so it is not asked.
    """
    if catalog.server_version < 150000:
        return None
    options = [*pgoutput_options(publication, binary=False)]
    if not messages:
        options.remove(("messages", "true"))
    connection = catalog.connection
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL statement_timeout = {int(_LOOK * 1000)}".encode())
            row = connection.execute(
                f"SELECT data, {_NOW} FROM pg_logical_slot_peek_binary_changes(%s::name, NULL, 1, VARIADIC %s::text[])"
                " LIMIT 1".encode(),
                (slot, [text for option in options for text in option]),
            ).fetchone()
        if row is None:
            return 0.0
        data, now = row
        return max(0.0, float(now) - pgoutput.parse_begin(xlogdata(0, 0, data)).committed_at / 1e6)
    except (PostgresError, WalrelayError):
        return None


def _mark(slot: str) -> str:
    """A hash, because a slot's name may fill the 63 bytes of an application name."""
    return f"walrelay waits {lock_key(slot) % 2**64:016x}"
