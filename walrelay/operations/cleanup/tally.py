"""What a pass of a clean-up is asked for, where it is, and what it did."""

from dataclasses import dataclass, field
from typing import NamedTuple


class CleanupWish(NamedTuple):
    """What should go: rows that are `older_than` so many seconds; None: nothing, but the coming days are made.

    `pace`: the share of the time that is worked; `patience`: seconds to wait until the slots have confirmed.
    """

    older_than: float | None
    dry_run: bool = False
    pace: float = 0.1
    patience: float = 30.0


class Step(NamedTuple):
    """Where a pass is: `done` of `whole` pages of a table, or seconds of its patience."""

    what: str
    done: float
    whole: float


@dataclass
class Tally:
    """What a pass did, or would do. `rows` are those of dropped partitions too."""

    rows: int = 0
    unknown: int = 0
    """Old enough, but from before the slot: nobody is known to have published them."""
    dropped: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    """Days."""
    notes: list[str] = field(default_factory=list)
    complete: bool = False
