"""What `walrelay status` shows: the slot's position and what it costs the server."""

import json
from typing import NamedTuple

from walrelay.control.state import RelayState, facts_of, relay_state
from walrelay.control.table import relay_row
from walrelay.dead_letters.counts import waiting
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Finding
from walrelay.postgres.candidates import of_candidates
from walrelay.postgres.catalog import Catalog, Slot, age
from walrelay.postgres.locks import lock_key, of_lock
from walrelay.postgres.retained import slot_wal
from walrelay.postgres.slot_records import missing_slot
from walrelay.postgres.standbys import standbys_waited_for
from walrelay.source.lag import lag_seconds

_ENDED = "not running", "stopped", "not started"
_PATIENCE = 5.0  # seconds; an event that waits for longer needs an operator


class RelayConnection(NamedTuple):
    """A relay that leads or stands by: its walsender's PID, address and start (ISO 8601)."""

    pid: int
    application_name: str
    client_address: str | None
    connected_at: str
    role: str = ""
    replicates: bool = True  # as a relay does; otherwise another command, or another program


class Status(NamedTuple):
    """Positions are LSN texts, sizes bytes. `lag_seconds` is the age of the oldest event that waits to be confirmed,
    on the server's clock (see `source.lag`); None if that is not known.
    """

    slot: str
    plugin: str | None
    database: str | None
    active: bool
    active_pid: int | None
    wal_status: str | None
    current_lsn: str
    confirmed_lsn: str | None
    restart_lsn: str | None
    lag_bytes: int | None
    lag_seconds: float | None
    retained_wal_bytes: int | None
    safe_wal_bytes: int | None
    held_by: str  # what keeps restart_lsn back when the relay is not it (guarantees A4)
    catalog_xmin_age: int | None  # transactions whose dead catalog rows the slot keeps from vacuum (guarantees A48)
    waits_for: str  # standbys that must be ahead of a failover slot, and are not (guarantees A13)
    dead_letters: int | None  # open ones; None: there is no table for them
    leader: RelayConnection | None
    standbys: list[RelayConnection]  # they wait for the lead, in this order
    sharing: list[RelayConnection]  # of instances with several relays: they lead this one, or would take it over
    state: str  # of the relay, as `walrelay relays` has it
    why: str  # why it is in that state; empty where all is well
    since: str | None  # when the state began, as far as that is known
    error_count: int | None  # errors and stalls since its process began the relay
    next: str  # what to do about it, as a command to paste where there is one; empty where all is well
    problems: tuple[Finding, ...] = ()  # what stops a relay, now or at the next row, as `walrelay doctor` finds it

    def as_json(self, relay: str = "") -> str:
        """One object; instances are objects too. `relay`: its name, if it has one."""
        members = self._asdict() | {"leader": self.leader and self.leader._asdict()}
        members["problems"] = [each._asdict() for each in self.problems]
        of = {"relay": relay} if relay else {}
        lists = {"standbys": self.standbys, "sharing": self.sharing}
        return json.dumps(of | members | {name: [each._asdict() for each in value] for name, value in lists.items()})


def status(catalog: Catalog, slot_name: str, publication: str | None = None, *, messages: bool = False) -> Status:
    """The slot's state now; Fatal if it is gone. `publication`: None for wal2json. `messages`: whether logical
    messages may be events.
    """
    if catalog.in_recovery():
        raise Fatal("the server is a standby; only the primary has the slot's state")
    slot = catalog.slot(slot_name)
    if slot is None:
        raise missing_slot(catalog, slot_name)
    current = LSN.parse(catalog.value("SELECT pg_current_wal_lsn()::text"))
    lag_bytes = _distance(current, slot.confirmed_flush_lsn)
    retained = _distance(current, slot.restart_lsn)
    lead = of_lock(lock_key(slot_name))
    leaders, standbys = _instances(catalog, f"{lead} AND granted"), _instances(catalog, f"{lead} AND NOT granted")
    lag = lag_seconds(catalog, slot, publication, messages=messages) if lag_bytes else 0.0
    letters = waiting(catalog, slot_name)
    row, wal = relay_row(catalog, slot_name, slot_name), slot_wal(catalog, [slot_name]).get(slot_name)
    relay = relay_state(facts_of(row, wal, led=bool(leaders) and leaders[0].replicates))
    return Status(
        slot=slot.name,
        plugin=slot.plugin,
        database=slot.database,
        active=slot.active_pid is not None,
        active_pid=slot.active_pid,
        wal_status=slot.wal_status,
        current_lsn=str(current),
        confirmed_lsn=str(slot.confirmed_flush_lsn) if slot.confirmed_flush_lsn is not None else None,
        restart_lsn=str(slot.restart_lsn) if slot.restart_lsn is not None else None,
        lag_bytes=lag_bytes,
        lag_seconds=lag,
        retained_wal_bytes=retained,
        safe_wal_bytes=slot.safe_wal_size,
        held_by=_oldest_writer(catalog) if (retained or 0) > 2 * (lag_bytes or 0) + 32 * 2**20 else "",
        catalog_xmin_age=catalog.value(
            "SELECT age(catalog_xmin) FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()",
            slot_name,
        ),
        waits_for=standbys_waited_for(catalog, slot),
        dead_letters=letters,
        leader=next(iter(leaders), None),
        standbys=standbys,
        sharing=_instances(catalog, of_candidates(slot_name)),
        state=relay.state,
        why=relay.why,
        since=relay.since,
        error_count=row.errors,
        next=_next(slot, relay, lag, letters),
    )


def _next(slot: Slot, relay: RelayState, lag: float | None, dead_letters: int | None) -> str:
    if slot.wal_status == "lost":
        return "walrelay recover --dry-run  # the slot cannot be read any more"
    if relay.level != "ok" and relay.state not in _ENDED:
        return relay.todo
    if slot.active_pid is None:
        return "walrelay doctor  # then start the relay: no relay reads the slot; its log says why it ended"
    if lag is None or lag > _PATIENCE:
        return "walrelay doctor  # something keeps the relay, which is connected, from confirming"
    return "walrelay dlq list  # what the broker refused waits for a decision" if dead_letters else ""


def _instances(catalog: Catalog, which: str) -> list[RelayConnection]:
    """Those whose rows `l` of pg_locks meet that condition, in the order in which they wait."""
    rows = catalog.rows(
        "SELECT pid, coalesce(application_name, ''), host(client_addr), to_json(backend_start)#>>'{}',"
        " coalesce(usename::text, ''), EXISTS (SELECT FROM pg_stat_replication r WHERE r.pid = l.pid)"
        f" FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE {which} ORDER BY waitstart, backend_start",
    )
    return [RelayConnection(*row) for row in rows]


def _distance(end: LSN, start: LSN | None) -> int | None:
    return None if start is None else max(0, end - start)


def _oldest_writer(catalog: Catalog) -> str:
    rows = catalog.rows(
        f"SELECT pid, coalesce(application_name, ''), state, round({age('xact_start')})"
        " FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
    )
    if not rows:
        return ""
    pid, name, state, seconds = rows[0]
    return f"a running transaction: PID {pid} {name!r} {state}, open for {seconds} s"
