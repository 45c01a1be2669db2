"""Which dead letters are meant, and their order, as SQL has both."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from walrelay.dead_letters.identity import stored_id, stored_text
from walrelay.dead_letters.tenants import TenantFilter
from walrelay.lsn import LSN

OPEN = ("waiting", "blocked")
"""The statuses of dead letters that can be replayed or discarded."""

ORDER = "commit_lsn, ordinal, number, id"
"""SQL: the order of all."""

_DIGITS = 19  # more than any number of a dead letter has


class DeadLetterPlace(NamedTuple):
    """A dead letter's place in the order of all."""

    commit_lsn: LSN
    ordinal: int
    number: int
    id: int

    def __str__(self) -> str:
        return ":".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> "DeadLetterPlace":
        """The inverse of `str`; ValueError for anything else."""
        lsn, *numbers = text.split(":")
        ordinal, number, id_ = map(int, numbers)
        if not (-1 <= ordinal < 2**31 and 0 <= number < 2**31 and 0 <= id_ < 2**63):
            raise ValueError(text)
        return cls(LSN.parse(lsn), ordinal, number, id_)


class DeadLetterFilter(NamedTuple):
    """Which dead letters. None matches all; `*` in `topic` matches any characters; `id`: the dead letter's or the
    record's; `ids`: those of dead letters; `after`: only what comes later in the order.
    """

    statuses: Sequence[str] | None = None
    topic: str | None = None
    error: str | None = None
    since: datetime | None = None  # of last_at
    until: datetime | None = None
    id: str | None = None
    key: bytes | None = None
    limit: int | None = None
    tenants: TenantFilter | None = None
    ids: Sequence[int] | None = None
    after: DeadLetterPlace | None = None

    @property
    def open(self) -> "DeadLetterFilter":
        """The same filter; without statuses, for open ones."""
        return self._replace(statuses=self.statuses or OPEN)


def conditions(wanted: DeadLetterFilter) -> tuple[str, list[Any]]:
    """SQL, and its parameters."""
    parts: list[tuple[str, Any]] = [
        ("status = ANY(%s)", None if wanted.statuses is None else list(wanted.statuses)),
        ("topic LIKE %s", None if wanted.topic is None else _pattern(stored_text(wanted.topic))),
        ("error = %s", wanted.error),
        ("last_at >= %s", wanted.since),
        ("last_at < %s", wanted.until),
        ("key = %s::bytea", wanted.key),
        ("id = ANY(%s)", None if wanted.ids is None else list(wanted.ids)),
    ]
    given = [(condition, value) for condition, value in parts if value is not None]
    found, values = ["true", *(condition for condition, _ in given)], [value for _, value in given]
    if wanted.id is not None:  # not as one expression: each has an index
        number = int(wanted.id) if wanted.id.isascii() and wanted.id.isdigit() and len(wanted.id) < _DIGITS else 0
        found.append("(record_id = %s OR id = %s)")
        values += [stored_id(wanted.id), number]
    if wanted.after is not None:
        found.append(f"({ORDER}) > (%s::pg_lsn, %s, %s, %s)")
        values += [str(wanted.after.commit_lsn), *wanted.after[1:]]
    return " AND ".join(found), values


def _pattern(topic: str) -> str:
    return topic.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")
