"""The relay's side of walrelay.dead_letters: each dead letter durable when it is written, and found again after a
crash.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from walrelay.dead_letter import UNDECODABLE, WHOLE_TRANSACTION, DeadLetter, Origin, message_json, record_json
from walrelay.errors import Fatal, NotServing, Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.connect import Connection
from walrelay.postgres.failures import (
    Denied,
    ErrorWords,
    NoSuchTable,
    PostgresError,
    StatementTimeout,
    explained,
    first_line,
)
from walrelay.postgres.locks import DEAD_LETTER_KEY_LOCK, PROCESS_TEXT
from walrelay.postgres.rights import grants_for, table_rights
from walrelay.postgres.standbys import await_standbys

TABLE = "walrelay.dead_letters"

EDIT_COLUMNS = ("edited_record", "edited_at", "edited_by", "edit_reason")

# The process that changes the table or has locked its rows; one that waits for others itself comes last.
_HOLDER = f"""
    SELECT {PROCESS_TEXT} FROM pg_locks l LEFT JOIN pg_stat_activity USING (pid)
    WHERE relation = to_regclass('{TABLE}') AND granted AND mode <> 'AccessShareLock' AND pid <> pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY EXISTS (SELECT FROM pg_locks w WHERE w.pid = l.pid AND NOT w.granted), backend_start LIMIT 1
"""


_WORDS = ErrorWords(
    "the dead letters in PostgreSQL cannot be reached",
    "the dead letters may not be read or written",
    "a dead letter cannot be written or read",
    "PostgreSQL accepts no writes now, so the dead letter cannot be stored",
    again=Retryable,
)


@contextmanager
def meaning(connection: Connection) -> Iterator[None]:
    """Raises errors of the statements inside as Retryable or Fatal."""
    with explained(_WORDS, lambda: grants_for(connection, table_rights("dead_letters"))):
        try:
            yield
        except StatementTimeout as cause:
            raise NotServing(_taken(connection) or f"the dead letters took too long: {first_line(cause)}") from cause
        except NoSuchTable as cause:
            raise missing() from cause


def _taken(connection: Connection) -> str:
    """Which other process holds the dead letters; empty if none, or if that cannot be seen."""
    try:
        found = connection.execute(_HOLDER.encode(), ()).fetchone()
    except PostgresError:
        return ""
    return f"another process holds the dead letters: {found[0]}; wait for it, or end it" if found else ""


def missing() -> Fatal:
    return Fatal(
        f"there is no table {TABLE}", hint="`walrelay init` makes it; existing objects stay as they are.", page="rights"
    )


def text(value: str) -> str:
    """Text that PostgreSQL takes: no NUL, and what is not UTF-8 as an escape."""
    return value.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


_COLUMNS = (
    "slot_name, commit_lsn, ordinal, number, record_id, sink, topic, key, status, error, reason, attempts, record,"
    " message, raw, closed_at, closed_by"
)
_VALUES = (
    "%(slot)s, %(commit_lsn)s::pg_lsn, %(ordinal)s, %(number)s, %(record_id)s, %(sink)s, %(topic)s, %(key)s::bytea,"
    " %(status)s, %(error)s, %(reason)s, %(attempts)s, %(record)s::json, %(message)s::json, %(raw)s::bytea,"
    " CASE WHEN %(status)s = 'skipped' THEN clock_timestamp() END, %(closed_by)s"
)
_AGAIN = (  # read again after a crash: its first reason stays
    " ON CONFLICT (slot_name, commit_lsn, ordinal, number, record_id) DO UPDATE"
    " SET attempts = dead_letters.attempts + excluded.attempts, last_at = clock_timestamp()"
)
_CLOSED = (
    ", status = excluded.status, reason = excluded.reason, closed_at = excluded.closed_at,"
    " closed_by = excluded.closed_by"
)
_BLOCK = (
    f"INSERT INTO {TABLE} ({_COLUMNS}) SELECT {_VALUES} WHERE EXISTS (SELECT FROM {TABLE} WHERE slot_name = %(slot)s"
    " AND topic = %(topic)s AND key = %(key)s::bytea AND status IN ('waiting', 'blocked')"
    f" AND (commit_lsn, ordinal, number) < (%(commit_lsn)s::pg_lsn, %(ordinal)s, %(number)s)){_AGAIN}"
)


class DeadLetterTableWriter:
    """Implements `DeadLetterWriter` for one slot. Fatal where the table is missing."""

    def __init__(self, catalog: Catalog, slot: str, sink_of: Callable[[str | None], str]) -> None:
        """`sink_of`: the sink of a topic; see `SinkHandle.sink_of`."""
        self._slot, self._sink_of = slot, sink_of
        self.reconnect(catalog)

    def reconnect(self, catalog: Catalog) -> None:
        self._catalog = catalog
        if not present(catalog):
            raise missing()
        catalog.commits_survive()
        slot = catalog.slot(self._slot)
        self._failover = slot is not None and slot.failover

    def write(self, letter: DeadLetter) -> None:
        self._write(f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES ({_VALUES}){_AGAIN}", letter, "policy")

    def skip(self, letter: DeadLetter, by: str) -> None:
        """Writes it as skipped by an operator, whatever status an earlier run gave it."""
        self._write(f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES ({_VALUES}){_AGAIN}{_CLOSED}", letter, by)

    def _write(self, statement: str, letter: DeadLetter, by: str) -> None:
        with meaning(self._catalog.connection):
            self._catalog.connection.execute(statement.encode(), self._parameters(letter, by))

    def await_standbys(self) -> None:
        if self._failover:
            await_standbys(self._catalog)

    def write_blocked(self, letter: DeadLetter) -> bool:
        parameters = self._parameters(letter, "")
        connection = self._catalog.connection
        with (
            meaning(connection),
            connection.transaction(),
        ):  # two statements: the second one sees what the lock waited for
            connection.execute(DEAD_LETTER_KEY_LOCK, (self._slot, parameters["topic"], letter.key))
            return connection.execute(_BLOCK.encode(), parameters).rowcount > 0

    def settled(self, start: LSN) -> dict[Origin, DeadLetter]:
        """The dead letters of what streams from `start` on, without their contents."""
        rows = self._catalog.rows(
            "SELECT commit_lsn::text, ordinal, number, record_id, status, error, reason, topic"
            f" FROM {TABLE} WHERE slot_name = %s AND commit_lsn >= %s::pg_lsn AND error <> %s",
            self._slot,
            str(start),
            UNDECODABLE,
        )
        origins = (Origin(LSN.parse(row[0]), *row[1:4]) for row in rows)
        return {origin: DeadLetter(origin, *row[4:]) for origin, row in zip(origins, rows, strict=True)}

    def blocked_keys(self) -> dict[tuple[str, bytes], Origin]:
        """Topics and keys with an open dead letter, and the origin of the first one of each."""
        rows = self._catalog.rows(
            "SELECT DISTINCT ON (topic, key) topic, key, commit_lsn::text, ordinal, number, record_id"
            f" FROM {TABLE} WHERE slot_name = %s AND status IN ('waiting', 'blocked')"
            " AND topic IS NOT NULL AND key IS NOT NULL ORDER BY topic, key, commit_lsn, ordinal, number",
            self._slot,
        )
        return {(topic, bytes(key)): Origin(LSN.parse(lsn), *origin) for topic, key, lsn, *origin in rows}

    def first_open(self, topic: str, key: bytes) -> Origin | None:
        rows = self._catalog.rows(
            f"SELECT commit_lsn::text, ordinal, number, record_id FROM {TABLE} WHERE slot_name = %s AND topic = %s"
            " AND key = %s::bytea AND status IN ('waiting', 'blocked') ORDER BY commit_lsn, ordinal, number LIMIT 1",
            self._slot,
            text(topic),
            key,
        )
        return next((Origin(LSN.parse(lsn), *origin) for lsn, *origin in rows), None)

    def _parameters(self, letter: DeadLetter, by: str) -> dict[str, Any]:
        origin, status, error, reason, topic, key, record, message, raw, attempts = letter
        return {
            "slot": self._slot,
            "commit_lsn": str(origin.commit_lsn),
            "ordinal": origin.ordinal,
            "number": origin.number,
            "record_id": text(origin.record_id),
            "sink": self._sink_of(topic),
            "topic": None if topic is None else text(topic),
            "key": key,
            "status": status,
            "error": error,
            "reason": text(reason),
            "attempts": attempts,
            "record": record and record_json(record),
            "message": message and message_json(message),
            "raw": raw,
            "closed_by": by if status == "skipped" else None,
        }


def await_letters(catalog: Catalog, slot: Slot) -> None:
    """Returns when dead letters of earlier runs, and of `walrelay skip`, survive a failover that `slot` survives: the
    relay does not publish their records again.
    """
    if not slot.failover or not present(catalog):
        return
    query = f"SELECT EXISTS (SELECT FROM {TABLE} WHERE slot_name = %s AND commit_lsn >= %s::pg_lsn)"
    try:
        kept = catalog.value(query, slot.name, str(slot.confirmed_flush_lsn or ZERO))
    except Denied:  # a role that may not read them skips nothing
        return
    if kept:
        await_standbys(catalog)


def present(catalog: Catalog) -> bool:
    return catalog.value(f"SELECT to_regclass('{TABLE}')") is not None


def edits_are_kept(catalog: Catalog) -> bool:
    """Whether the table has the columns of edits; that of an earlier version has not."""
    query = f"SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('{TABLE}') AND attname = ANY (%s)"
    return bool(catalog.value(query, [*EDIT_COLUMNS]) == len(EDIT_COLUMNS))


def skips(catalog: Catalog, slot: str) -> frozenset[tuple[LSN, int | None]]:
    """Positions from the confirmed one on that `walrelay skip` named, or that the policy skipped before a crash;
    ordinal None: a non-transactional message. None for a role that may not read the table: the relay stops at them.
    """
    if not present(catalog):
        return frozenset()
    confirmed = (
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()"
    )
    query = (
        f"SELECT commit_lsn::text, ordinal FROM {TABLE} WHERE slot_name = %s AND error = %s AND status = 'skipped'"
        f" AND commit_lsn >= coalesce(({confirmed}), '0/0')"
    )
    try:
        rows = catalog.rows(query, slot, UNDECODABLE, slot)
    except Denied:
        return frozenset()
    return frozenset((LSN.parse(lsn), None if ordinal == WHOLE_TRANSACTION else ordinal) for lsn, ordinal in rows)


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


class DeadLetterOfRecord(NamedTuple):
    """A dead letter without what is of the event itself, but for type and aggregate. `status`: waiting, blocked,
    replayed, discarded or skipped. `committed_at`: of the record, in microseconds since 1970.
    """

    record_id: str
    position: str
    status: str
    error: str
    topic: str | None
    letter: int = 0
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    type: str | None = None
    committed_at: int | None = None


def dead_letters_of(catalog: Catalog, slot: str, record_ids: Sequence[str]) -> dict[str, list[DeadLetterOfRecord]]:
    """By record id, each in their order; records without a dead letter are left out."""
    if not record_ids or not present(catalog):
        return {}
    rows = catalog.rows(
        "SELECT record_id, commit_lsn::text || ':' || ordinal, status, error, topic, id, record->>'aggregate_type',"
        f" record->>'aggregate_id', record->>'type', (record->>'committed_at')::int8 FROM {TABLE}"
        " WHERE slot_name = %s AND record_id = ANY (%s::text[]) ORDER BY commit_lsn, ordinal, number",
        slot,
        list(record_ids),
    )
    found: dict[str, list[DeadLetterOfRecord]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(DeadLetterOfRecord(*row))
    return found
