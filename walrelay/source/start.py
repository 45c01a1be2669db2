"""Where a stream begins: the slot's position and the relay's own, and what it means when they disagree. Pure.

A crash sets the slot's position back, so the relay's own is the better one if it is later. If it is earlier, something
else may have moved the slot, or created it again, and events in between may be missing. Whether that is proved depends
on where the own position is from:

- a file and a topic are written before PostgreSQL is told: something else moved a slot that is ahead of them;
- a row in the database is written before that too, but the row's own WAL comes after the position in it. A promoted
  standby may have taken over the slot without it. So the row proves nothing against a slot that has not moved since the
  promotion;
- what a process remembers proves nothing against the slot: as soon as its connection was gone another instance could
  lead. It saves repetitions, and is no reason to stop.

Positions are of one history of WAL: where a standby was promoted, the histories are the same only up to where its
timeline branched off (`walrelay.postgres.history`).
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from walrelay.errors import Fatal, NotServing
from walrelay.lsn import LSN, ZERO
from walrelay.model import LatestCommit, RelayPosition, System
from walrelay.postgres.catalog import Slot
from walrelay.postgres.history import in_history, timeline_text


class Server(NamedTuple):
    """The slot's server: where its WAL ends, and where each earlier timeline of its history ended."""

    system: System
    wal_end: LSN
    branches: Mapping[int, LSN]


class OwnPosition(NamedTuple):
    """A position of the relay's own, and where it is from, which decides what it proves."""

    place: Literal["memory", "file", "table", "topic"]
    position: RelayPosition


class Start(NamedTuple):
    """The stream begins at `lsn`; of the transaction at `commit_lsn` the records before `ordinal` are published
    already.

    `notice`: what an operator should know; usually empty. `xmin`: see RelayPosition, for `lsn`.
    """

    lsn: LSN
    commit_lsn: LSN = ZERO
    ordinal: int = 0
    notice: str = ""
    xmin: int = 0
    kept: LatestCommit | None = None

    @property
    def latest(self) -> LatestCommit:
        """See RelayPosition; without one, nothing was read since the stream began there."""
        return self.kept or LatestCommit(self.lsn, 0)


def start_of(slot: Slot, own: OwnPosition | None, server: Server, reached: LSN | None = None) -> Start:
    """The later of both positions. Fatal where going on could skip events, or the position is another server's.
    Retryable on a server with an earlier timeline than one that was read: the present primary is another one.

    `reached`: up to where relays of the slot confirmed for certain, wherever they kept their positions.
    """
    confirmed = slot.confirmed_flush_lsn or ZERO
    refuse_future(slot, server.wal_end)
    if own is None:
        return Start(confirmed)
    place, position = own
    (identifier, timeline, _), here = position.system, server.system
    if identifier != here.identifier:
        raise _another_system(own, server)
    if here.timeline < timeline:
        raise _an_old_primary(own, server)
    inherited = confirmed <= max(server.branches.values(), default=ZERO)  # nobody has moved it since the promotion
    if not in_history(position.system, here, server.branches):
        if place == "memory" or inherited:
            return Start(confirmed, notice=_of_another_branch(own, server))
        raise _another_timeline(own, server)
    limit = server.branches.get(timeline, server.wal_end)
    if position.lsn > limit and timeline == here.timeline:
        if position.latest is None:
            return set_back(slot, own, ZERO, server.wal_end)
        return Start(position.lsn)  # if the WAL is what was read: see walrelay.relay.retracing
    if position.lsn > limit:
        return Start(max(confirmed, limit), notice=_published_too_much(position, limit))
    if confirmed > position.lsn:
        if place == "memory" or (place == "table" and inherited):
            notice = _went_on if place == "memory" else _row_left_behind
            return Start(confirmed, notice=notice(confirmed, position), xmin=position.xmin)
        if reached is not None and confirmed <= reached:
            return Start(confirmed, notice=_outdated(own, confirmed))
        raise _moved(slot, own, confirmed)
    if position.commit_lsn > limit:
        return Start(position.lsn, notice=_published_too_much(position, limit), xmin=position.xmin)
    return Start(position.lsn, position.commit_lsn, position.ordinal, xmin=position.xmin)


def refuse_future(slot: Slot, wal_end: LSN) -> None:
    """Fatal if the slot is beyond the end of its server's WAL, which was read after it: its position says nothing about
    what was published, and nothing up to there ever would be.
    """
    confirmed = slot.confirmed_flush_lsn or ZERO
    if confirmed > wal_end:
        raise Fatal(
            f"slot {slot.name!r} is at {confirmed}, but this server's WAL ends at {wal_end}: everything the"
            " server writes up to that position would never be published. The server lost WAL, or was set back by"
            " pg_rewind or from a copy, or a reader confirmed a position of another server",
            hint="`walrelay recover --replace` creates the slot again and publishes what may be missing.",
            page="history",
        )


def is_continued(slot: Slot, remembered: RelayPosition, read: LSN, system: System, wal_end: LSN) -> bool:
    """Whether this process can go on as if it had not been away: what it has read, up to `read`, and holds is what
    comes next. Unless the server was set back, which its WAL tells (`walrelay.relay.retracing`).
    """
    confirmed = slot.confirmed_flush_lsn or ZERO
    return remembered.system == system and confirmed <= remembered.lsn and max(remembered.lsn, read) <= wal_end


class SetBack(Fatal):
    """The server has lost a part of the WAL that was read. Its slot is behind that part."""

    page = "history"


def set_back(slot: Slot, own: OwnPosition, same: LSN, wal_end: LSN) -> Start:
    """Where to begin on a server whose WAL is not what was read up to the own position. `same`: up to where it is what
    was read, with all that was published; ZERO: not that far.

    Then it is Fatal where the position is kept outside the process: under exactly once, too, events would be repeated,
    and consumers have seen others that the database has not.
    """
    confirmed, (place, position) = slot.confirmed_flush_lsn or ZERO, own
    where = same or confirmed
    found = f"ends at {wal_end}" if wal_end < position.lsn else f"has other transactions now behind {where}"
    what = (
        f"walrelay has read and confirmed {position.lsn}, as {_PLACES[place]}, but this server's WAL {found}: it lost"
        " WAL or was set back, for instance to a snapshot of its disk"
    )
    if same:
        return Start(same, notice=f"{what}. No event was published behind {same}, so the stream begins there")
    if place == "memory":
        seen = "consumers may have seen events that the database does not have"
        return Start(confirmed, notice=f"{what}; {seen}. The stream begins at the slot's position")
    raise SetBack(
        f"{what}; what it writes up to that position would be assumed published",
        hint="`walrelay run --from-slot` publishes everything from the slot's position on: nothing is lost, and events"
        " from shortly before may come again, with their ids. Consumers may have seen events that the database does not"
        " have.",
    )


_PLACES = {
    "memory": "this process remembers",
    "file": "the position file says",
    "table": "the row in walrelay.positions says",
    "topic": "the record in the topic of positions says",
}


def _moved(slot: Slot, own: OwnPosition, confirmed: LSN) -> Fatal:
    mine = " Each instance with a file of its own has only its own part: position.keep: table or topic is shared."
    return Fatal(
        f"slot {slot.name!r} is at {confirmed}, but walrelay confirmed only {own.position.lsn}, as"
        f" {_PLACES[own.place]}: something else moved it, or it was created again, and the events in between were not"
        " published by this relay",
        hint="Find out who consumed or re-created the slot. The rows in between are still in the outbox table:"
        " `walrelay recover --replace` publishes them. `walrelay run --from-slot` accepts the slot's position instead."
        + (mine if own.place == "file" else ""),
        page="slot-moved",
    )


def _another_system(own: OwnPosition, server: Server) -> Fatal:
    position = own.position
    return Fatal(
        f"walrelay's position {position.lsn} is of the system {position.system.identifier}, as {_PLACES[own.place]},"
        f" but this server is {server.system.identifier}: another cluster, or one that pg_upgrade or initdb made",
        hint="Correct source.dsn. If the server is the right one and everything of the old one was published,"
        " `walrelay run --from-slot` begins at its slot's position; else `walrelay recover --replace`.",
        page="history",
    )


def _another_timeline(own: OwnPosition, server: Server) -> Fatal:
    position = own.position
    return Fatal(
        f"walrelay's position {position.lsn} is of {timeline_text(position.system)}, as {_PLACES[own.place]}, which"
        f" is not in the history of this server's {timeline_text(server.system)}: another standby was promoted, or"
        " the server was restored from an older backup",
        hint="Correct source.dsn so that it leads to the present primary. If this server is to be read all the same:"
        " `walrelay recover --replace` looks for what may not have been published, and makes a new slot.",
        page="history",
    )


def _an_old_primary(own: OwnPosition, server: Server) -> NotServing:
    """A DSN may lead there for a moment during a failover, which is no reason to stop."""
    position = own.position
    return NotServing(
        f"this server is on timeline {server.system.timeline}, but walrelay has read timeline"
        f" {position.system.timeline}, as {_PLACES[own.place]}: it is an old primary, or was restored from an older"
        " backup; waiting for the present primary (if this is it, `walrelay recover --replace` looks for what may not"
        " have been published, and makes a new slot)"
    )


def _of_another_branch(own: OwnPosition, server: Server) -> str:
    position = own.position
    return (
        f"walrelay confirmed {position.lsn} on {timeline_text(position.system)}, as {_PLACES[own.place]}, which is"
        f" not in the history of this server's {timeline_text(server.system)}: another standby was promoted, and"
        " consumers have seen what it does not have. The stream begins at the slot's position"
    )


def _went_on(confirmed: LSN, position: RelayPosition) -> str:
    return (
        f"this process confirmed {position.lsn}, and the slot is at {confirmed}: another instance led meanwhile. If"
        " there is no other instance, something else moved the slot, or it was created again, and `walrelay audit` says"
        " whether events are missing; only a position that all instances share (position.keep) would show that for"
        " certain"
    )


def _outdated(own: OwnPosition, confirmed: LSN) -> str:
    return (
        f"{_PLACES[own.place]} {own.position.lsn}, which is outdated: this relay has confirmed up to {confirmed} since,"
        " and kept its position elsewhere. The stream begins at the slot's position"
    )


def _published_too_much(position: RelayPosition, limit: LSN) -> str:
    return (
        f"events up to {max(position.lsn, position.commit_lsn)} were published, but the standby that was promoted has"
        f" only those before {limit}: consumers have seen what the database has not. synchronized_standby_slots"
        " prevents that"
    )


def _row_left_behind(confirmed: LSN, position: RelayPosition) -> str:
    return (
        f"the row in walrelay.positions says {position.lsn}, and the slot is at {confirmed}: the standby that was"
        " promoted had the slot before it had the row. The stream begins at the slot's position"
    )
