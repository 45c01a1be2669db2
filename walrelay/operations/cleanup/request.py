"""What is asked of a pass of a clean-up, its progress, and what came of it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from walrelay.postgres.catalog import Catalog
from walrelay.postgres.slot_records import declare_all_published
from walrelay.table.selection import describe_table
from walrelay.wiring import Wiring


class CleanupRequest(NamedTuple):
    """Delete rows that are `older_than` that many seconds; None: delete nothing, only make the coming days.

    `pace`: the share of time to work; `patience`: seconds to wait until the slots have confirmed.
    """

    older_than: float | None
    dry_run: bool = False
    pace: float = 0.1
    patience: float = 30.0


class CleanupStep(NamedTuple):
    """Progress of a pass: `done` of `whole` pages of a table, or seconds of its patience if it `waits`."""

    what: str
    done: float
    whole: float
    waits: bool = False


@dataclass
class CleanupReport:
    """What a pass did, or would do. `rows` are those of dropped partitions too."""

    rows: int = 0
    unknown: int = 0
    """Rows that are old enough, but from before the slot: they are not known to be published."""
    dropped: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    """The days whose partitions were made."""
    notes: list[str] = field(default_factory=list)
    complete: bool = False

    def hint(self, slot: str) -> str:
        """What to do about rows that stay; empty if there are none."""
        if not self.unknown:
            return ""
        return (
            "`walrelay init --backfill` makes a slot that publishes such rows. If you know that all of them were"
            f" published: {declare_all_published(slot)}"
        )


def age_to_clean(wiring: Wiring, asked: float | None) -> float | None:
    """How old a row has to be, in seconds; None: nobody says so."""
    return wiring.retention if asked is None else asked


def pages_to_clean(catalog: Catalog, wiring: Wiring) -> int:
    """Those of the outbox and all of its partitions now; 1 at least."""
    describe_table(catalog, wiring)  # Fatal without it
    query = (
        "SELECT sum(pg_relation_size(oid)) / current_setting('block_size')::int8 FROM (SELECT to_regclass(%s) AS oid"
        " UNION SELECT relid FROM pg_partition_tree(to_regclass(%s))) AS parts"
    )
    return max(1, int(catalog.value(query, wiring.table, wiring.table) or 0))
