"""Which history of WAL a server has, and whether a position lies in it: a promoted standby may lack the end of one.

A promoted standby takes the next free number for its timeline, as far as it knows. Two that are promoted without
knowing of each other take the same one. So a timeline is identified by its number and by where it began, which the
server's history file says; nothing that a server keeps distinguishes two that began at the same place.
"""

from collections.abc import Mapping
from typing import NamedTuple

from walrelay.errors import NotServing
from walrelay.lsn import LSN
from walrelay.model import RelayPosition, System
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import server_message, sqlstate_of


def timeline_ends(history: str) -> dict[int, LSN]:
    """timeline -> where the next one branched off; `history` is the text of a timeline history file."""
    lines = (line.split() for line in history.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return {int(timeline): LSN.parse(lsn) for timeline, lsn, *_ in lines}


def timeline_start(timeline: int, left_at: Mapping[int, LSN]) -> LSN | None:
    """Where the timeline began, on a server that left earlier ones at `left_at`; None for the first."""
    return max((lsn for earlier, lsn in left_at.items() if earlier < timeline), default=None)


def in_history(of: System, here: System, left_at: Mapping[int, LSN]) -> bool:
    """Whether the server `here`, which left earlier timelines at `left_at`, has that one in its history."""
    if of.timeline != here.timeline and of.timeline not in left_at:
        return False
    here_too = timeline_start(of.timeline, left_at)
    return here_too is None or of.began in (None, here_too)


def timeline_text(of: System) -> str:
    return f"timeline {of.timeline}" + ("" if of.began is None else f" (from {of.began} on)")


class History(NamedTuple):
    """A server's system, the end of its WAL, and where it left each earlier timeline, as far as it still knows."""

    system: System
    end: LSN
    left_at: dict[int, LSN]

    @property
    def branch(self) -> LSN | None:
        """Where the last promotion was; None for a server that never was a standby."""
        return max(self.left_at.values(), default=None)

    @property
    def forgotten(self) -> bool:
        """Whether the server no longer knows where it was promoted."""
        return self.system.timeline > 1 and not self.left_at

    def fault(self, position: RelayPosition) -> str:
        """Why the position says nothing about this server's transactions; empty if it does."""
        system, timeline, _ = position.system
        if system != self.system.identifier:
            return f"it is of another system ({system}, this is {self.system.identifier})"
        if not in_history(position.system, self.system, self.left_at):
            return f"it is of {timeline_text(position.system)}, which is not in the history of this server"
        end = self.left_at.get(timeline, self.end)
        if position.lsn > end:
            return f"it is ahead of this server, which left timeline {timeline} at {end}"
        return ""


def server_history(dsn: str, beside: Catalog) -> History:
    """Asks the server of the catalog, a primary, on a replication connection."""
    connection = connect.replication(dsn)
    try:
        beside.refuse_another_server(connect.backend(connection))
        identifier, number, end = _row(connection, "IDENTIFY_SYSTEM")[:3]
        timeline, left_at = int(number), dict[int, LSN]()
        if timeline > 1 and (content := _row(connection, f"TIMELINE_HISTORY {timeline}", unless=connect.NO_FILE)):
            left_at = timeline_ends(content[1])
        return History(System(identifier, timeline, timeline_start(timeline, left_at)), LSN.parse(end), left_at)
    finally:
        connection.close()


def _row(connection: connect.Connection, command: str, *, unless: str = "") -> list[str]:
    """Empty where the server's error is `unless`."""
    result = connect.answer(connection, command)
    if unless and sqlstate_of(result) == unless:
        return []
    if result.status != connect.Status.TUPLES_OK:
        raise NotServing(f"PostgreSQL does not answer {command}: {server_message(result)}")
    return [(result.get_value(0, column) or b"").decode() for column in range(result.nfields)]
