"""The operator's side of walrelay.dead_letters: find by filters, lock for a replay, close with a reason."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from walrelay.dead_letter import DeadLetter, Origin, message_from, message_json, record_from
from walrelay.dead_letters.filtering import OPEN, ORDER, DeadLetterFilter, DeadLetterPlace, conditions
from walrelay.dead_letters.identity import stored_text
from walrelay.dead_letters.store import EDIT_COLUMNS, TABLE, edits_are_kept, meaning, missing, present
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import DEAD_LETTER_KEY_LOCK

_HEAD = (
    "id, first_at, last_at, closed_at, closed_by, closed_why, slot_name, sink, commit_lsn::text, ordinal, number,"
    " record_id, status, error, reason, topic, key, attempts"
)
_CONTENT, _NO_CONTENT = "record, message, raw", "NULL::json, NULL::json, NULL::bytea"
_PAGE = 200  # dead letters that are in memory at a time
_BATCH = 1000  # dead letters that are discarded at a time
_PATIENCE = 60.0  # seconds for another process that has them locked: twice as long as a replay waits for a receipt


OrderKey = tuple[str, bytes]
"""Topic and key."""


class DeadLetterEdit(NamedTuple):
    """A correction of the record: what a replay publishes instead of it."""

    record: OutboxRecord
    at: datetime
    by: str
    reason: str


class SiblingLetter(NamedTuple):
    """A dead letter of the same record: which message it is about."""

    id: int
    topic: str | None
    key: bytes | None
    number: int


class StoredDeadLetter(NamedTuple):
    """A row of the table. `edit`: None where its record is as it was. `siblings`: the dead letters of its record, with
    itself, in their order; none where its content was not asked for.
    """

    id: int
    first_at: datetime
    last_at: datetime
    closed_at: datetime | None
    closed_by: str | None
    closed_why: str | None
    slot: str
    sink: str
    letter: DeadLetter
    edit: DeadLetterEdit | None = None
    siblings: Sequence[SiblingLetter] = ()

    @property
    def record(self) -> OutboxRecord | None:
        """What a replay publishes: as edited."""
        return self.letter.record if self.edit is None else self.edit.record

    @property
    def place(self) -> DeadLetterPlace:
        origin = self.letter.origin
        return DeadLetterPlace(origin.commit_lsn, origin.ordinal, origin.number, self.id)


class DeadLetterKey(NamedTuple):
    """What has an order: dead letters with the same topic and key. `as_edited`: those of an edited one's messages, by
    today's rules.
    """

    id: int
    topic: str | None
    key: bytes | None
    edited: bool = False
    as_edited: frozenset[OrderKey] = frozenset()

    @property
    def order_keys(self) -> frozenset[OrderKey]:
        return self.as_edited if self.topic is None or self.key is None else self.as_edited | {(self.topic, self.key)}


class DeadLetterTable:
    """All dead letters of one slot, in the order of their positions. Fatal where the table is missing. `patience`:
    seconds to wait for another process that has them locked.
    """

    def __init__(self, catalog: Catalog, slot: str, patience: float | None = _PATIENCE) -> None:
        self.catalog, self._slot = catalog, slot
        if patience is not None:  # otherwise the connection's own
            connect.set_statement_timeout(catalog.connection, patience)
        if not present(catalog):
            raise missing()
        catalog.slot(slot)  # Fatal for one of another database: its letters came along with a copy of that database
        catalog.commits_survive()
        self.keeps_edits = edits_are_kept(catalog)

    def find(self, wanted: DeadLetterFilter) -> list[int]:
        """Their ids, in order."""
        condition, parameters = conditions(wanted)
        query = f"SELECT id FROM {TABLE} WHERE slot_name = %s AND {condition} ORDER BY {ORDER} LIMIT %s"
        limit = None if wanted.tenants else wanted.limit
        found = [id_ for (id_,) in self._rows(query, self._slot, *parameters, limit)]
        return wanted.tenants.select(self.catalog, found)[: wanted.limit] if wanted.tenants else found

    def find_to_replay(self, wanted: DeadLetterFilter) -> tuple[list[int], list[str]]:
        """Their ids and those of what is blocked behind them, in order; and the statuses one of which each must still
        have when its turn comes.
        """
        found = self.find(wanted.open)
        return found + self.blocked_behind(found), sorted({*(wanted.open.statuses or ()), "blocked"})

    def find_to_discard(self, wanted: DeadLetterFilter) -> list[int]:
        """The ids of open ones, in order, even if the filter names other statuses."""
        return self.find(wanted._replace(statuses=[each for each in wanted.open.statuses or () if each in OPEN]))

    def letters(self, ids: Sequence[int], *, whole: bool = True) -> Iterator[StoredDeadLetter]:
        """In order, read page by page. Not `whole`: without record, message and raw content, which may be large."""
        for start in range(0, len(ids), _PAGE):
            yield from self._letters(ids[start : start + _PAGE], whole=whole)

    def blocked_behind(self, ids: Sequence[int]) -> list[int]:
        """The ids of those that are blocked behind these, in order."""
        query = (
            f"SELECT b.id FROM {TABLE} b WHERE b.slot_name = %s AND b.status = 'blocked' AND b.id <> ALL(%s)"
            f" AND EXISTS (SELECT FROM {TABLE} w WHERE w.id = ANY(%s) AND w.topic = b.topic AND w.key = b.key"
            " AND (w.commit_lsn, w.ordinal, w.number) < (b.commit_lsn, b.ordinal, b.number))"
            " ORDER BY b.commit_lsn, b.ordinal, b.number, b.id"
        )
        return [id_ for (id_,) in self._rows(query, self._slot, list(ids), list(ids))]

    def keys(self, ids: Sequence[int]) -> list[DeadLetterKey]:
        edited = "edited_record IS NOT NULL" if self.keeps_edits else "false"
        rows = self._rows(
            f"SELECT id, topic, key, {edited} FROM {TABLE} WHERE id = ANY(%s) ORDER BY {ORDER}", list(ids)
        )
        return [DeadLetterKey(row[0], row[1], None if row[2] is None else bytes(row[2]), row[3]) for row in rows]

    @contextmanager
    def locked(self, keys: Sequence[DeadLetterKey], statuses: Sequence[str]) -> Iterator[list[StoredDeadLetter]]:
        """Dead letters that still have one of these statuses and are the first open ones of their keys; locked for a
        transaction, in which the relay publishes no later message of their keys.
        """
        connection = self.catalog.connection
        with meaning(connection), connection.transaction():
            for topic, key in sorted(order_key for each in keys for order_key in each.order_keys):
                connection.execute(DEAD_LETTER_KEY_LOCK, (self._slot, topic, key))
            connection.execute(
                f"SELECT FROM {TABLE} WHERE id = ANY(%s) FOR UPDATE".encode(), ([key.id for key in keys],)
            )
            turn = self._rows(
                f"SELECT id FROM {TABLE} l WHERE id = ANY(%s) AND status = ANY(%s) AND (status <> 'blocked' OR NOT"
                f" EXISTS (SELECT FROM {TABLE} e WHERE e.slot_name = l.slot_name AND e.topic = l.topic"
                " AND e.key = l.key AND e.status IN ('waiting', 'blocked')"
                " AND (e.commit_lsn, e.ordinal, e.number) < (l.commit_lsn, l.ordinal, l.number)))",
                [key.id for key in keys],
                list(statuses),
            )
            yield self._letters([id_ for (id_,) in turn])

    def first_open_before(self, place: DeadLetterPlace, topic: str, key: bytes) -> int | None:
        """The id of the first open dead letter with that topic and key, if it comes before `place`."""
        rows = self._rows(
            f"SELECT id FROM {TABLE} WHERE slot_name = %s AND topic = %s AND key = %s::bytea AND status IN ('waiting',"
            f" 'blocked') AND ({ORDER}) < (%s::pg_lsn, %s, %s, %s) ORDER BY {ORDER} LIMIT 1",
            self._slot,
            stored_text(topic),
            key,
            str(place.commit_lsn),
            *place[1:],
        )
        return rows[0][0] if rows else None

    def first_open_among(self, ids: Sequence[int]) -> int | None:
        """The first of these that is open."""
        if not ids:
            return None
        rows = self._rows(
            f"SELECT id FROM {TABLE} WHERE id = ANY(%s) AND status IN ('waiting', 'blocked') ORDER BY {ORDER} LIMIT 1",
            list(ids),
        )
        return rows[0][0] if rows else None

    def ahead_of_the_relay(self, ids: Sequence[int]) -> set[int]:
        """Those that the slot has not passed: what precedes them may still be on its way. Nothing is ahead of a slot
        that is gone, nor of one in another history of WAL.
        """
        rows = self._rows(
            f"SELECT l.id FROM {TABLE} l JOIN pg_replication_slots s ON s.slot_name = l.slot_name"
            " WHERE l.id = ANY(%s) AND s.database = current_database() AND s.confirmed_flush_lsn <= l.commit_lsn"
            " AND l.commit_lsn <= pg_current_wal_lsn()",
            list(ids),
        )
        return {id_ for (id_,) in rows}

    def replayed(self, ids: Sequence[int], by: str) -> None:
        """Only while they are `locked`."""
        self._close(ids, "replayed", by, None, None)

    def refused(self, id_: int, error: str, reason: str) -> None:
        """A replay was refused: it stays open. Only while it is `locked`."""
        self._rows(
            f"UPDATE {TABLE} SET attempts = attempts + 1, last_at = clock_timestamp(), error = %s, reason = %s"
            " WHERE id = %s RETURNING id",
            error,
            stored_text(reason),
            id_,
        )

    def split(self, id_: int, message: Message, error: str, reason: str, sink: str | None) -> None:
        """Makes a message of a record's dead letter one of its own, which is open. Only while that is `locked`."""
        edits = "".join(f", {name}" for name in (EDIT_COLUMNS if self.keeps_edits else ()))
        free = (
            f"SELECT max(number) + 1 FROM {TABLE} s WHERE s.slot_name = l.slot_name AND s.commit_lsn = l.commit_lsn"
            " AND s.ordinal = l.ordinal AND s.record_id = l.record_id"
        )
        self._rows(
            f"INSERT INTO {TABLE} (slot_name, commit_lsn, ordinal, number, record_id, sink, topic, key, status, error,"
            f" reason, attempts, first_at, record, message{edits}) SELECT slot_name, commit_lsn, ordinal, ({free}),"
            f" record_id, coalesce(%s, sink), %s, %s::bytea, 'waiting', %s, %s, 1, first_at, record, %s::json{edits}"
            f" FROM {TABLE} l WHERE id = %s RETURNING id",
            sink,
            stored_text(message.topic),
            message.key,
            error,
            stored_text(reason),
            message_json(message),
            id_,
        )

    def discard(self, ids: Sequence[int], by: str, why: str) -> int:
        """Closes those that are open, in batches; returns how many."""
        parts = (ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH))
        return sum(self._close(part, "discarded", by, why, OPEN) for part in parts)

    def _close(self, ids: Sequence[int], status: str, by: str, why: str | None, only: Sequence[str] | None) -> int:
        query = (
            f"UPDATE {TABLE} SET status = %s, closed_at = clock_timestamp(), closed_by = %s, closed_why = %s"
            " WHERE slot_name = %s AND id = ANY(%s) AND (%s::text[] IS NULL OR status = ANY(%s)) RETURNING id"
        )
        listed = None if only is None else list(only)
        return len(
            self._rows(query, status, stored_text(by), why and stored_text(why), self._slot, list(ids), listed, listed)
        )

    def _letters(self, ids: Sequence[int], *, whole: bool = True) -> list[StoredDeadLetter]:
        content = _CONTENT if whole else _NO_CONTENT
        columns = ", ".join((_HEAD, content, *(EDIT_COLUMNS if self.keeps_edits else ["NULL"] * len(EDIT_COLUMNS))))
        rows = self._rows(f"SELECT {columns} FROM {TABLE} WHERE id = ANY(%s) ORDER BY {ORDER}", list(ids))
        siblings = self._siblings(ids) if whole else {}
        return [_stored(row, siblings.get(row[0], ())) for row in rows]

    def _siblings(self, ids: Sequence[int]) -> dict[int, list[SiblingLetter]]:
        """The dead letters of the same records, by the ids of these."""
        rows = self._rows(
            f"SELECT l.id, s.id, s.topic, s.key, s.number FROM {TABLE} l JOIN {TABLE} s ON s.slot_name = l.slot_name"
            " AND s.commit_lsn = l.commit_lsn AND s.ordinal = l.ordinal AND s.record_id = l.record_id"
            " WHERE l.id = ANY(%s) ORDER BY s.number, s.id",
            list(ids),
        )
        found: dict[int, list[SiblingLetter]] = {}
        for id_, other, topic, key, number in rows:
            found.setdefault(id_, []).append(SiblingLetter(other, topic, None if key is None else bytes(key), number))
        return found

    def _rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with meaning(self.catalog.connection):
            return self.catalog.connection.execute(query.encode(), parameters).fetchall()


def _stored(row: tuple[Any, ...], siblings: Sequence[SiblingLetter]) -> StoredDeadLetter:
    head, content, (edited, *edit) = row[:8], row[8:-4], row[-4:]
    lsn, ordinal, number, record_id, status, error, reason, topic, key, attempts, record, message, raw = content
    letter = DeadLetter(
        Origin(LSN.parse(lsn), ordinal, number, record_id),
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
    return StoredDeadLetter._make((*head, letter, edited and DeadLetterEdit(record_from(edited), *edit), siblings))
