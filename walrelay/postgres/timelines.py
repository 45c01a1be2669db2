"""Which timeline of a system a position is of, and whether a server has it in its history. Pure.

A promoted standby takes the next free number for its timeline, as far as it knows. Two that are promoted without
knowing of each other take the same one. So a timeline is told by its number and by where it began, which the server's
history file says; and two that began at the same place are told apart by nothing that a server keeps.
"""

from collections.abc import Mapping

from walrelay.lsn import LSN
from walrelay.model import System


def branches(history: str) -> dict[int, LSN]:
    """timeline -> where the next one branched off, of a timeline history file's text."""
    lines = (line.split() for line in history.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return {int(timeline): LSN.parse(lsn) for timeline, lsn, *_ in lines}


def began(timeline: int, left_at: Mapping[int, LSN]) -> LSN | None:
    """Where that timeline began on a server that left earlier ones there: where the one before it ended, if one did."""
    return max((lsn for earlier, lsn in left_at.items() if earlier < timeline), default=None)


def has(of: System, here: System, left_at: Mapping[int, LSN]) -> bool:
    """Whether the server `here`, which left earlier timelines there, has that one in its history."""
    if of.timeline != here.timeline and of.timeline not in left_at:
        return False
    here_too = began(of.timeline, left_at)
    return here_too is None or of.began in (None, here_too)


def told(of: System) -> str:
    """The timeline, for people."""
    return f"timeline {of.timeline}" + ("" if of.began is None else f" (from {of.began} on)")
