"""How many dead letters there are, by what is known of them. Indexes have all of it: no record is read."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from walrelay.dead_letters.filtering import OPEN
from walrelay.dead_letters.handling import DeadLetterTable
from walrelay.dead_letters.store import TABLE, meaning, present
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied

COUNTS_OF_GROUPS = (
    f"SELECT status, error, count(*), min(first_at), max(first_at) FROM {TABLE} WHERE slot_name = %s"
    " GROUP BY status, error"
)  # by dead_letters_order, which has these columns
COUNTS_OF_TOPICS = (
    f"SELECT topic, count(*) FROM {TABLE} WHERE slot_name = %s AND status IN ('waiting', 'blocked')"
    " AND coalesce(octet_length(topic), 0) <= 1000 GROUP BY topic ORDER BY 2 DESC, topic LIMIT %s"
)  # by dead_letters_topics


class DeadLetterCounts(NamedTuple):
    """`by_status` counts all, everything else those that are open. `by_topic`: the topics with the most, but for names
    of more than 1,000 bytes; None: those that have none. `oldest`, `newest`: when they were first refused; None where
    none is open.
    """

    open: int
    by_status: dict[str, int]
    by_error: dict[str, int]
    by_topic: dict[str | None, int]
    oldest: datetime | None
    newest: datetime | None


def dead_letter_counts(table: DeadLetterTable, slot: str, topics: int = 20) -> DeadLetterCounts:
    connection = table.catalog.connection
    with meaning(connection):
        groups = connection.execute(COUNTS_OF_GROUPS.encode(), (slot,)).fetchall()
        by_topic = connection.execute(COUNTS_OF_TOPICS.encode(), (slot, topics)).fetchall()
    by_status, by_error = Counter[str](), Counter[str]()
    open_ = [group for group in groups if group[0] in OPEN]
    for status, _, letters, *_ in groups:
        by_status[status] += letters
    for _, error, letters, *_ in open_:
        by_error[error] += letters
    return DeadLetterCounts(
        by_error.total(),
        dict(by_status.most_common()),
        dict(by_error.most_common()),
        dict(by_topic),
        min((oldest for *_, oldest, _ in open_), default=None),
        max((newest for *_, newest in open_), default=None),
    )


def waiting(catalog: Catalog, slot: str) -> int | None:
    """How many dead letters are open; None where there is no table, or the role may not read it."""
    found = waiting_of(catalog, [slot])
    return None if found is None else found.get(slot, 0)


def waiting_of(catalog: Catalog, slots: Sequence[str]) -> dict[str, int] | None:
    """The same for several slots in one statement; a slot without any is left out."""
    if not present(catalog):
        return None
    query = (
        f"SELECT slot_name, count(*) FROM {TABLE} WHERE slot_name = ANY (%s) AND status IN ('waiting', 'blocked')"
        " GROUP BY slot_name"
    )
    try:
        return dict(catalog.rows(query, [*slots]))
    except Denied:
        return None
