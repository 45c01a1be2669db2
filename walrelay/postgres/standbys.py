"""Standbys that must have WAL before a failover slot may send it: synchronized_standby_slots (guarantees A13)."""

from time import monotonic, sleep
from typing import NamedTuple

from walrelay.errors import NotServing
from walrelay.postgres.catalog import Catalog, Slot

_PATIENCE, _LOOK = 2.0, 0.01  # seconds: far below wal_sender_timeout, because the stream is not read meanwhile
_WAITING = "WaitForStandbyConfirmation"  # the wait event of a walsender that waits for one

_NAMED = (
    "unnest(string_to_array(current_setting('synchronized_standby_slots', true), ',')) WITH ORDINALITY u (n, i)"
    " CROSS JOIN LATERAL (SELECT trim(' \"' FROM n) AS name) AS t LEFT JOIN pg_replication_slots s ON slot_name = name"
    " WHERE name <> ''"
)
# restart_lsn of a physical slot is what its standby has flushed; the server itself compares with it.
_LACKING = f"SELECT name FROM {_NAMED} AND (slot_type = 'physical' AND s.restart_lsn >= %s::pg_lsn) IS NOT TRUE"


class StandbySlot(NamedTuple):
    """A name in synchronized_standby_slots. `behind`: how many bytes its standby lacks; None if that is not known."""

    name: str
    fault: str  # why no standby can get ahead through it; empty while one is connected
    behind: int | None

    @property
    def trouble(self) -> str:
        return self.fault or (f"its standby is {self.behind} bytes behind" if self.behind else "")


def required_standby_slots(catalog: Catalog) -> list[StandbySlot]:
    """Every slot that the setting names, in its order; none before PostgreSQL 17."""
    rows = catalog.rows(
        "SELECT name, slot_type, coalesce(to_jsonb(s)->>'invalidation_reason', ''), active_pid IS NOT NULL,"
        f" pg_wal_lsn_diff(pg_current_wal_flush_lsn(), restart_lsn)::int8 FROM {_NAMED} ORDER BY i"
    )
    return [StandbySlot(name, _fault(*state), behind) for name, *state, behind in rows]


def standbys_waited_for(catalog: Catalog, slot: Slot) -> str:
    """The standby slots for which the reader of `slot` waits now, or would wait if there were one; empty if for none.

    A connected standby is always a little behind: that counts only while the walsender waits for it.
    """
    if not slot.failover:
        return ""
    event = catalog.value("SELECT wait_event FROM pg_stat_activity WHERE pid = %s", slot.active_pid)
    names = [each for each in required_standby_slots(catalog) if each.fault or (event == _WAITING and each.behind)]
    return "; ".join(f"standby slot {each.name}: {each.trouble}" for each in names)


def blocking_standbys(catalog: Catalog, slot: str) -> str:
    """The standby slots for which the process that uses `slot` waits at this moment; empty if for none."""
    found = catalog.slot(slot)
    if found is None or not found.failover:
        return ""
    event = catalog.value("SELECT wait_event FROM pg_stat_activity WHERE pid = %s", found.active_pid)
    return standbys_waited_for(catalog, found) if event == _WAITING else ""


def await_standbys(catalog: Catalog) -> None:
    """Returns when every standby that failover slots wait for has what is committed by now; Retryable, with the names
    of the standby slots, after two seconds.

    A slot is copied to a standby over another connection than WAL. So a standby may have a slot that is past a record
    without having what was written because of that record.
    """
    lsn, deadline = catalog.value("SELECT pg_current_wal_flush_lsn()::text"), monotonic() + _PATIENCE
    while lacking := [str(name) for (name,) in catalog.rows(_LACKING, lsn)]:
        if monotonic() > deadline:
            raise NotServing(
                f"standby slot {', '.join(lacking)}: its standby does not have the dead letters yet, and would lose"
                " them in a failover; nothing after their records is confirmed until it has them"
            )
        sleep(_LOOK)


def _fault(kind: str | None, invalidation_reason: str, active: bool) -> str:
    if kind is None:
        return "it does not exist"
    if kind != "physical":
        return "it is a logical slot, through which no standby streams"
    if invalidation_reason:
        return f"it was invalidated ({invalidation_reason})"
    return "" if active else "no standby is connected to it"
