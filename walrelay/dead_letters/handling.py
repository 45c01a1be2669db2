"""The operator's side of the dead letters: found by filters, replayed under a lock, discarded with a reason."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from walrelay.dead_letter import Letter, Place, message_from, record_from
from walrelay.dead_letters.session import TABLE, meaning, missing, text
from walrelay.dead_letters.store import present
from walrelay.lsn import LSN
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import OF_A_KEY

OPEN = ("waiting", "blocked")

_ORDER = "commit_lsn, ordinal, number, id"
_LETTER = (
    "id, first_at, last_at, closed_at, closed_by, closed_why, slot_name, sink, commit_lsn::text, ordinal, number,"
    " record_id, status, error, reason, topic, key, record, message, raw, attempts"
)
_PAGE = 200  # letters that are in memory at a time
_PATIENCE = 60.0  # seconds, for who replays or discards the same letters: twice what the broker is given to take them


class Wanted(NamedTuple):
    """Which letters; None: whichever. `*` in `topic` stands for any characters. `id`: the letter's or the record's."""

    statuses: Sequence[str] | None = None
    topic: str | None = None
    error: str | None = None
    since: datetime | None = None  # by the last time it was met
    until: datetime | None = None
    id: str | None = None
    key: bytes | None = None
    limit: int | None = None


class Kept(NamedTuple):
    """A letter in the table, and what became of it."""

    id: int
    first_at: datetime
    last_at: datetime
    closed_at: datetime | None
    closed_by: str | None
    closed_why: str | None
    slot: str
    sink: str
    letter: Letter


class Line(NamedTuple):
    """What tells which letters have an order among them."""

    id: int
    topic: str | None
    key: bytes | None


class Letterbox:
    """All letters of one slot, in the order of their positions. Fatal where the table is missing. Whoever else has the
    letters is waited for, for `patience` seconds.
    """

    def __init__(self, catalog: Catalog, slot: str, patience: float = _PATIENCE) -> None:
        self._catalog, self._slot = catalog, slot
        connect.limit(catalog.connection, patience)
        if not present(catalog):
            raise missing()
        catalog.commits_survive()

    def find(self, wanted: Wanted) -> list[int]:
        """The ids of the letters, in order."""
        conditions, parameters = _conditions(wanted)
        query = f"SELECT id FROM {TABLE} WHERE slot_name = %s AND {conditions} ORDER BY {_ORDER} LIMIT %s"
        return [id_ for (id_,) in self._rows(query, self._slot, *parameters, wanted.limit)]

    def letters(self, ids: Sequence[int]) -> Iterator[Kept]:
        """The letters with these ids, in order, read as they are asked for."""
        for start in range(0, len(ids), _PAGE):
            yield from self._letters(ids[start : start + _PAGE])

    def behind(self, ids: Sequence[int]) -> list[int]:
        """The letters that are blocked behind those, in order."""
        query = (
            f"SELECT b.id FROM {TABLE} b WHERE b.slot_name = %s AND b.status = 'blocked' AND b.id <> ALL(%s)"
            f" AND EXISTS (SELECT FROM {TABLE} w WHERE w.id = ANY(%s) AND w.topic = b.topic AND w.key = b.key"
            " AND (w.commit_lsn, w.ordinal, w.number) < (b.commit_lsn, b.ordinal, b.number))"
            " ORDER BY b.commit_lsn, b.ordinal, b.number, b.id"
        )
        return [id_ for (id_,) in self._rows(query, self._slot, list(ids), list(ids))]

    def lines(self, ids: Sequence[int]) -> list[Line]:
        """Topic and key of the letters, in order."""
        rows = self._rows(f"SELECT id, topic, key FROM {TABLE} WHERE id = ANY(%s) ORDER BY {_ORDER}", list(ids))
        return [Line(id_, topic, None if key is None else bytes(key)) for id_, topic, key in rows]

    @contextmanager
    def held(self, lines: Sequence[Line], statuses: Sequence[str]) -> Iterator[list[Kept]]:
        """Those of the letters that still have one of these statuses and whose turn it is, in a transaction and held
        against everybody else: the relay does not publish a later message of their keys meanwhile.
        """
        connection = self._catalog.connection
        with meaning(connection), connection.transaction():
            for topic, key in sorted({(line.topic, line.key) for line in lines if line.topic and line.key is not None}):
                connection.execute(OF_A_KEY, (self._slot, topic, key))
            connection.execute(
                f"SELECT FROM {TABLE} WHERE id = ANY(%s) FOR UPDATE".encode(), ([line.id for line in lines],)
            )
            turn = self._rows(
                f"SELECT id FROM {TABLE} l WHERE id = ANY(%s) AND status = ANY(%s) AND (status <> 'blocked' OR NOT"
                f" EXISTS (SELECT FROM {TABLE} e WHERE e.slot_name = l.slot_name AND e.topic = l.topic"
                " AND e.key = l.key AND e.status IN ('waiting', 'blocked')"
                " AND (e.commit_lsn, e.ordinal, e.number) < (l.commit_lsn, l.ordinal, l.number)))",
                [line.id for line in lines],
                list(statuses),
            )
            yield self._letters([id_ for (id_,) in turn])

    def replayed(self, ids: Sequence[int], by: str) -> None:
        """To be called while they are `held`."""
        self._close(ids, "replayed", by, None, None)

    def refused(self, id_: int, error: str, reason: str) -> None:
        """A replay was refused; the letter waits on. To be called while it is `held`."""
        self._rows(
            f"UPDATE {TABLE} SET attempts = attempts + 1, last_at = clock_timestamp(), error = %s, reason = %s"
            " WHERE id = %s RETURNING id",
            error,
            text(reason),
            id_,
        )

    def discard(self, ids: Sequence[int], by: str, why: str) -> int:
        """Gives up those that are still open; how many there were."""
        return self._close(ids, "discarded", by, why, OPEN)

    def _close(self, ids: Sequence[int], status: str, by: str, why: str | None, only: Sequence[str] | None) -> int:
        query = (
            f"UPDATE {TABLE} SET status = %s, closed_at = clock_timestamp(), closed_by = %s, closed_why = %s"
            " WHERE slot_name = %s AND id = ANY(%s) AND (%s::text[] IS NULL OR status = ANY(%s)) RETURNING id"
        )
        listed = None if only is None else list(only)
        return len(self._rows(query, status, text(by), why and text(why), self._slot, list(ids), listed, listed))

    def _letters(self, ids: Sequence[int]) -> list[Kept]:
        rows = self._rows(f"SELECT {_LETTER} FROM {TABLE} WHERE id = ANY(%s) ORDER BY {_ORDER}", list(ids))
        return [_kept(row) for row in rows]

    def _rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with meaning(self._catalog.connection):
            return self._catalog.connection.execute(query.encode(), parameters).fetchall()


def _conditions(wanted: Wanted) -> tuple[str, list[Any]]:
    parts: list[tuple[str, Any]] = [
        ("status = ANY(%s)", None if wanted.statuses is None else list(wanted.statuses)),
        ("topic LIKE %s", None if wanted.topic is None else _pattern(text(wanted.topic))),
        ("error = %s", wanted.error),
        ("last_at >= %s", wanted.since),
        ("last_at < %s", wanted.until),
        ("%s IN (record_id, id::text)", None if wanted.id is None else text(wanted.id)),
        ("key = %s::bytea", wanted.key),
    ]
    given = [(condition, value) for condition, value in parts if value is not None]
    return " AND ".join(["true", *(condition for condition, _ in given)]), [value for _, value in given]


def _pattern(topic: str) -> str:
    return topic.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")


def _kept(row: tuple[Any, ...]) -> Kept:
    head, (lsn, ordinal, number, record_id, status, error, reason, topic, key, record, message, raw, attempts) = (
        row[:8],
        row[8:],
    )
    letter = Letter(
        Place(LSN.parse(lsn), ordinal, number, record_id),
        status,
        error,
        reason,
        topic,
        None if key is None else bytes(key),
        record and record_from(record),
        message and message_from(message),
        None if raw is None else bytes(raw),
        attempts,
    )
    return Kept._make((*head, letter))
