"""All SQL on the table walrelay.relays. Its triggers note who paused a relay and when, clear what belongs to a pause
that is over, and send a notification.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import RelayPosition
from walrelay.postgres.catalog import Catalog, age
from walrelay.postgres.failures import Denied
from walrelay.postgres.retained import SlotWal
from walrelay.postgres.sizes import size

TABLE = "walrelay.relays"
CHANNEL = "walrelay_relays"
ACTIVITY = "walrelay.activity"


def relays_table_exists(catalog: Catalog) -> bool:
    return catalog.value(f"SELECT to_regclass('{TABLE}')") is not None


def no_relays_table() -> Fatal:
    hint = "`walrelay init` makes it; existing objects stay as they are. Then restart the relay."
    return Fatal(f"there is no table {TABLE}", hint=hint)


class Pause(NamedTuple):
    """A pause as the table has it; `at` tells it from every other. `until` and `left`, the seconds to go: None until
    somebody resumes the relay. `limit`: the bytes of WAL that the slot may retain; None: any number. `age`: seconds
    since it began.
    """

    at: str
    by: str
    reason: str = ""
    until: str | None = None
    left: float | None = None
    limit: int | None = None
    drops_slot: bool = False
    age: float = 0.0

    @property
    def terms(self) -> tuple[object, ...]:
        """All but the time that goes by: a pause that somebody gave other terms is another."""
        return self.at, self.by, self.reason, self.until, self.limit, self.drops_slot

    @property
    def over(self) -> bool:
        """Whether its time has passed: an expired pause is no pause."""
        return self.left is not None and self.left <= 0

    @property
    def since(self) -> float | None:
        """`at` as Unix time; None: not known, because somebody wrote what is no time, or none."""
        try:
            return datetime.fromisoformat(self.at).timestamp() or None
        except (ValueError, OverflowError):  # PostgreSQL knows infinity, and years before 1
            return None

    def __str__(self) -> str:
        text = f"by {self.by or 'an unknown role'}" + (f": {self.reason}" if self.reason else "")
        if self.until is not None:
            text += f"; until {self.until}"
        if self.limit is not None:
            then = "is dropped" if self.drops_slot else "is read again"
            text += f"; when the slot retains {size(self.limit)} of WAL it {then}"
        return text


def cost(wal: SlotWal | None) -> str:
    """What a pause costs by now, for people."""
    if wal is None or wal.retained is None:
        return "it is not known how much WAL the slot retains"
    left = "" if wal.safe is None else f", and is lost after {size(wal.safe)} more"
    return f"the slot retains {size(wal.retained)} of WAL{left}"


_PAUSE = (
    "slot_name, to_json(coalesce(paused_at, 'epoch'))#>>'{}', coalesce(paused_by, ''), coalesce(pause_reason, ''),"
    " to_json(paused_until)#>>'{}', CASE WHEN isfinite(paused_until)"
    " THEN extract(epoch FROM paused_until - clock_timestamp())::float8 END, pause_limit, at_pause_limit = 'drop_slot',"
    f" CASE WHEN isfinite(paused_at) THEN {age('paused_at')}::float8 ELSE 0 END"
)


def pauses(catalog: Catalog, slots: Sequence[str], *, locked: bool = False) -> dict[str, Pause]:
    """The pauses of these slots that are not over. `locked`: until the transaction ends, nobody changes them."""
    query = f"SELECT {_PAUSE} FROM {TABLE} WHERE paused AND slot_name = ANY (%s)" + (" FOR UPDATE" if locked else "")
    found = {row[0]: Pause(*row[1:]) for row in catalog.rows(query, [*slots])}
    return {slot: pause for slot, pause in found.items() if not pause.over}


def clear_expired_pause(catalog: Catalog, slot: str) -> bool:
    """Ends a pause whose time has passed: the row should not look like one that is obeyed. Whether there was one."""
    over = "paused AND paused_until <= clock_timestamp()"
    return catalog.run(f"UPDATE {TABLE} SET paused = false WHERE slot_name = %s AND {over}", slot) > 0


class PauseRequest(NamedTuple):
    """What an operator asks for. `until`: a time in PostgreSQL's words; or `period`: seconds, by the server's clock."""

    by: str
    reason: str = ""
    until: str | None = None
    limit: int | None = None
    drops_slot: bool = False
    period: float | None = None


def begin_pause(catalog: Catalog, slot: str, name: str, request: PauseRequest, *, new: bool = False) -> Pause | None:
    """The pause as the table has it now. A relay that is paused already is paused on these terms from now on; with
    `new` it is left as it is, and the answer is None.
    """
    by, reason, until, limit, drops_slot, _ = request
    over = " WHERE NOT r.paused OR r.paused_until <= clock_timestamp()" if new else ""
    rows = catalog.rows(
        f"INSERT INTO {TABLE} AS r (slot_name, name, paused, paused_by, pause_reason, paused_until, pause_limit,"
        " at_pause_limit) VALUES (%s, %s, true, %s, nullif(%s, ''), %s::timestamptz, %s::int8, %s)"
        " ON CONFLICT (slot_name) DO UPDATE SET (paused, paused_by, pause_reason, paused_until, pause_limit,"
        " at_pause_limit, paused_at) = (true, excluded.paused_by, excluded.pause_reason, excluded.paused_until,"
        " excluded.pause_limit, excluded.at_pause_limit,"
        f" CASE WHEN (r.paused_until > clock_timestamp()) IS NOT FALSE THEN r.paused_at END){over} RETURNING {_PAUSE}",
        *(slot, name, by, reason, until, limit, "drop_slot" if drops_slot else "resume"),
    )
    return next((Pause(*row[1:]) for row in rows), None)


_ON_TERMS = (
    " AND to_json(coalesce(paused_at, 'epoch'))#>>'{}' = %s AND coalesce(paused_by, '') = %s"
    " AND coalesce(pause_reason, '') = %s AND to_json(paused_until)#>>'{}' IS NOT DISTINCT FROM %s"
    " AND pause_limit IS NOT DISTINCT FROM %s AND (at_pause_limit = 'drop_slot') = %s"
)


def end_pause(catalog: Catalog, slot: str, only: Pause | None = None) -> bool:
    """False if it was not paused. `only`: that pause, and on its terms: who gave it others wants it to go on."""
    of = "" if only is None else _ON_TERMS
    statement = f"UPDATE {TABLE} SET paused = false WHERE slot_name = %s AND paused{of}"
    return catalog.run(statement, slot, *(() if only is None else only.terms)) > 0


class RelayReport(NamedTuple):
    """Report of a relay about itself. `lead` names the lead that it is about; `leads`: it lasts; `led`: it did when the
    state changed. `position` None: nothing was confirmed. `waiting_since`: when the oldest event was committed that
    has waited for long, in microseconds since 1970; None: none has.
    """

    slot: str
    name: str
    instance: str
    lead: str
    leads: bool
    led: bool
    state: str
    position: LSN | None
    waiting_since: int | None
    last_error: str
    last_error_at: float  # Unix time; 0 without one
    errors: int  # since the process began the relay
    publication: str | None  # None for wal2json


_MAY_WRITE = (
    "SELECT %s::text IS NULL OR EXISTS (SELECT FROM pg_publication WHERE pubname = %s), EXISTS (SELECT FROM"
    f" pg_attribute WHERE attrelid = to_regclass('{TABLE}') AND attname = 'ended_at' AND NOT attisdropped)"
)
_COLUMNS = "state, instance, position, lag_bytes, lag_seconds, last_error, last_error_at, updated_at"
_VALUES = (
    "%s, %s, {position}, pg_wal_lsn_diff(pg_current_wal_lsn(), {position})::int8,"
    " greatest(0, extract(epoch FROM clock_timestamp())::float8 - coalesce(%s::float8 / 1000000, 'infinity')),"
    " nullif(%s, ''), to_timestamp(nullif(%s::float8, 0)), now()"
)
# Only a lead that has the row (`postgres.slot_moves.take_row`) can say where it ended, and no later than the next one.
# One that has confirmed nothing yet leaves what the row says of the one before.
_ITS_END = (
    ", error_count = %s, lead = CASE WHEN lead = %s OR %s THEN lead END,"
    " ended_at = CASE WHEN CASE WHEN %s THEN ended_at = updated_at ELSE lead = %s AND %s END THEN now() END"
)
_BY_LEAD = "(%s OR lead = %s OR (lead IS NULL AND (%s OR instance = %s)))"


def write_report(catalog: Catalog, report: RelayReport) -> None:
    """Nothing is written where another instance reported last, unless this one leads. Nor while the publication is
    gone: what is written then, to any table, no server can decode (guarantees A18). A table of an earlier version lacks
    columns.
    """
    slot, name, instance, lead, leads, led, state, position, since, error, error_at, errors, publication = report
    ((published, current),) = catalog.rows(_MAY_WRITE, publication, publication)
    if not published:
        return
    where, idle, over = None if position is None else str(position), position is None, state in ("stopped", "failed")
    values: list[Any] = [state, instance, where, where, since, error, error_at]
    its_end, from_whom, whose = "", "(%s OR instance = %s)", [led, instance]
    ends: list[Any] = []
    if current:
        its_end, ends = _ITS_END, [errors, lead, idle, idle, lead, over]
        from_whom, whose = _BY_LEAD, [leads, lead, led, instance]
    changed = catalog.run(
        f"UPDATE {TABLE} SET ({_COLUMNS}) = (SELECT {_VALUES.format(position='coalesce(%s::pg_lsn, position)')})"
        f"{its_end} WHERE slot_name = %s AND {from_whom}",
        *(*values, *ends, slot, *whose),
    )
    if not changed and led:
        texts = _VALUES.format(position="%s::pg_lsn") + ", %s, %s" * current
        catalog.run(
            f"INSERT INTO {TABLE} (slot_name, name, {_COLUMNS}{', error_count, lead' * current})"
            f" SELECT %s, %s, {texts} ON CONFLICT DO NOTHING",
            *(slot, name, *values, *([errors, lead] if current else [])),
        )


class RelayRow(NamedTuple):
    """A row of the table. Times are texts of PostgreSQL's. `age`: seconds since the report. `errors`: None where the
    table is of an earlier version.
    """

    slot: str
    name: str
    state: str = "not started"
    instance: str | None = None
    position: str | None = None
    last_error: str | None = None
    last_error_at: str | None = None
    errors: int | None = None
    updated_at: str | None = None
    age: float | None = None
    pause: Pause | None = None


_ROW = (
    "slot_name, name, state, instance, position::text, last_error, to_json(last_error_at)#>>'{}',"
    " (to_jsonb(r) ->> 'error_count')::int8, to_json(updated_at)#>>'{}',"
    f" {age('updated_at')}::float8, paused"
)


def relay_row(catalog: Catalog, slot: str, name: str) -> RelayRow:
    """The row of that slot; one of a relay that never started where there is none, or no table."""
    rows = relay_rows(catalog) if relays_table_exists(catalog) else ()
    return next((row for row in rows if row.slot == slot), RelayRow(slot, name))


def relay_rows(catalog: Catalog) -> list[RelayRow]:
    """Without relays of another database's slots: their rows came along with a copy of that database."""
    rows = catalog.rows(
        f"SELECT {_ROW}, {_PAUSE} FROM {TABLE} AS r WHERE NOT EXISTS (SELECT FROM pg_replication_slots f"
        " WHERE f.slot_name = r.slot_name AND f.database IS DISTINCT FROM current_database()) ORDER BY name, slot_name"
    )
    found = ((row, Pause(*row[12:]) if row[10] else None) for row in rows)
    return [RelayRow._make([*row[:10], None if pause is None or pause.over else pause]) for row, pause in found]


def reported_state(catalog: Catalog, slot: str, since: str) -> tuple[str, str] | None:
    """State and last error, if they were reported since that time."""
    query = (
        f"SELECT state, coalesce(last_error, '') FROM {TABLE} WHERE slot_name = %s AND updated_at >= %s::timestamptz"
    )
    return next(((state, error) for state, error in catalog.rows(query, slot, since)), None)


def delete_row(catalog: Catalog, slot: str) -> None:
    """For a slot that is dropped by choice: what was asked of its relay is over."""
    for table in (TABLE, ACTIVITY):
        if catalog.value("SELECT to_regclass(%s)", table) is not None:
            catalog.run(f"DELETE FROM {table} WHERE slot_name = %s", slot)


def note_given_up(catalog: Catalog, position: RelayPosition) -> None:
    """How far a slot got that is dropped now."""
    _set_given_up(catalog, position.slot, position.as_json().decode())


def forget_given_up(catalog: Catalog, slot: str) -> None:
    """The slot was not dropped after all."""
    _set_given_up(catalog, slot, None)


def _set_given_up(catalog: Catalog, slot: str, position: str | None) -> None:
    catalog.run(f"UPDATE {TABLE} SET given_up = %s::jsonb WHERE slot_name = %s", position, slot)


def given_up(catalog: Catalog, slot: str) -> RelayPosition | None:
    """How far a slot had got that a relay dropped; None if none did, or if the role may not read it."""
    try:
        if not relays_table_exists(catalog):
            return None
        noted = catalog.value(f"SELECT given_up::text FROM {TABLE} WHERE slot_name = %s", slot)
    except Denied:
        return None
    return None if noted is None else RelayPosition.of_json(noted.encode())
