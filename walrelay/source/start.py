"""Where a stream begins: the slot's position and the relay's own, and what it means when they do not agree. Pure.

A crash sets the slot's position back, so the relay's own is the better one if it is later. If it is earlier, somebody
else moved the slot, or it was made anew, and events in between may be missing. Positions are of one history of WAL:
where a standby was promoted, the histories are the same only up to where its timeline branched off.
"""

from collections.abc import Mapping
from typing import NamedTuple

from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.model import Position, System
from walrelay.source.catalog import Slot


class Server(NamedTuple):
    """Whom the slot belongs to: where its WAL ends, and where each earlier timeline of its history ended."""

    system: System
    wal_end: LSN
    branches: Mapping[int, LSN]


class Start(NamedTuple):
    """The stream begins at `lsn`; of the transaction at `commit_lsn` the records before `ordinal` are done already.

    `notice` is what an operator should know; empty as a rule.
    """

    lsn: LSN
    commit_lsn: LSN = ZERO
    ordinal: int = 0
    notice: str = ""


def start_of(slot: Slot, own: Position | None, server: Server) -> Start:
    """The later of both positions; Fatal where going on could pass over events, or is another server's business."""
    confirmed = slot.confirmed_flush_lsn or ZERO
    if own is None:
        return Start(confirmed)
    if own.system.identifier != server.system.identifier:
        raise _another_system(own, server)
    limit = server.wal_end
    if own.system.timeline != server.system.timeline:
        if own.system.timeline not in server.branches:
            raise _another_timeline(own, server)
        limit = server.branches[own.system.timeline]
    elif own.lsn > limit:
        raise _behind_its_own_past(own, server)
    if own.lsn > limit:
        return Start(max(confirmed, limit), notice=_published_too_much(own, limit))
    if confirmed > own.lsn:
        raise _moved(slot, own, confirmed)
    if own.commit_lsn > limit:
        return Start(own.lsn, notice=_published_too_much(own, limit))
    return Start(own.lsn, own.commit_lsn, own.ordinal)


def branches(history: str) -> dict[int, LSN]:
    """timeline -> where the next one branched off, of a timeline history file's text."""
    lines = (line.split() for line in history.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return {int(timeline): LSN.parse(lsn) for timeline, lsn, *_ in lines}


def _moved(slot: Slot, own: Position, confirmed: LSN) -> Fatal:
    return Fatal(
        f"slot {slot.name!r} stands at {confirmed}, but walrelay confirmed only {own.lsn}: something"
        " else moved it, or it was made anew, and the events in between were not published by this relay",
        hint="Find out who consumed or re-created the slot. The rows in between are still in the outbox table:"
        " `walrelay recover` publishes them. `walrelay run --from-slot` accepts the slot's position instead.",
    )


def _another_system(own: Position, server: Server) -> Fatal:
    return Fatal(
        f"walrelay's position {own.lsn} is of the system {own.system.identifier}, but this server is"
        f" {server.system.identifier}: another cluster, or one that pg_upgrade or initdb made",
        hint="Correct source.dsn. If the server is the right one and everything of the old one was published,"
        " `walrelay run --from-slot` begins where its slot stands; else `walrelay recover`.",
    )


def _another_timeline(own: Position, server: Server) -> Fatal:
    return Fatal(
        f"walrelay's position {own.lsn} is of timeline {own.system.timeline}, which is not in the history of this"
        f" server's timeline {server.system.timeline}: it is an old primary, or was restored from an older backup",
        hint="Correct source.dsn so that it leads to the present primary. If this server is to be read all the same:"
        " `walrelay recover` looks for what may not have been published, and makes a new slot.",
    )


def _behind_its_own_past(own: Position, server: Server) -> Fatal:
    return Fatal(
        f"walrelay confirmed {own.lsn}, but this server's WAL ends at {server.wal_end}: it lost WAL, or was restored"
        " from an older copy, and what it writes next would be taken for published",
        hint="`walrelay recover` makes a new slot and publishes what may be missing.",
    )


def _published_too_much(own: Position, limit: LSN) -> str:
    return (
        f"events up to {max(own.lsn, own.commit_lsn)} were published, but the standby that was promoted has only those"
        f" before {limit}: consumers have seen what the database has not. synchronized_standby_slots prevents that"
    )
