"""The relay's side of walrelay.dead_letters: each dead letter durable when it is written, and found again after a
crash.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from walrelay.dead_letter import UNDECODABLE, WHOLE_TRANSACTION, DeadLetter, Origin, message_json, record_json
from walrelay.dead_letters.identity import RecordKey, of_records, stored_id, stored_text
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
    TooWide,
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
        except TooWide as cause:
            raise Fatal(
                f"a dead letter cannot be stored in {TABLE}: {first_line(cause)}",
                hint="An earlier version's index takes no topic or key of that length. `walrelay init` replaces it.",
                page="server",
            ) from cause


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


_COLUMNS = (
    "slot_name, commit_lsn, ordinal, number, record_id, sink, topic, key, status, error, reason, attempts, record,"
    " message, raw, closed_at, closed_by"
)
_VALUES = (
    "%(slot)s, %(commit_lsn)s::pg_lsn, %(ordinal)s, %(number)s, %(record_id)s, %(sink)s, %(topic)s, %(key)s::bytea,"
    " %(status)s, %(error)s, %(reason)s, %(attempts)s, %(record)s::json, %(message)s::json, %(raw)s::bytea,"
    " CASE WHEN %(status)s = 'skipped' THEN clock_timestamp() END, %(closed_by)s"
)
_RECORD = (
    "slot_name = %(slot)s AND commit_lsn = %(commit_lsn)s::pg_lsn AND ordinal = %(ordinal)s"
    " AND record_id = %(record_id)s"
)
_AGAIN = " SET attempts = dead_letters.attempts + %(attempts)s, last_at = clock_timestamp()"  # its first reason stays
_CLOSED = ", status = %(status)s, reason = %(reason)s, closed_at = clock_timestamp(), closed_by = %(closed_by)s"
# Under its number another message of the record may be a dead letter already, by the rules of then.
_INSERT = (
    f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES ({_VALUES}) ON CONFLICT (slot_name, commit_lsn, ordinal, number,"
    f" record_id) DO UPDATE{_AGAIN} WHERE dead_letters.topic IS NOT DISTINCT FROM excluded.topic"
    " AND dead_letters.key IS NOT DISTINCT FROM excluded.key"
)
_FREE_NUMBER = f"SELECT max(number) + 1 FROM {TABLE} WHERE {_RECORD}"
_BLOCKS = (
    f"SELECT EXISTS (SELECT FROM {TABLE} WHERE slot_name = %(slot)s AND topic = %(topic)s AND key = %(key)s::bytea"
    " AND status IN ('waiting', 'blocked')"
    " AND (commit_lsn, ordinal, number) < (%(commit_lsn)s::pg_lsn, %(ordinal)s, %(number)s))"
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
        with meaning(self._catalog.connection):
            self._write(self._parameters(letter, "policy"))

    def skip(self, letter: DeadLetter, by: str) -> None:
        """Writes it as skipped by an operator, whatever status an earlier run gave it."""
        with meaning(self._catalog.connection):
            self._write(self._parameters(letter, by), again=_CLOSED)

    def _write(self, parameters: dict[str, Any], again: str = "") -> None:
        """Only an earlier dead letter of the same message is counted; one of the whole record is the only one that has
        no topic.
        """
        execute = self._catalog.connection.execute
        of_record = f"UPDATE {TABLE}{_AGAIN}{again} WHERE {_RECORD} AND topic IS NULL"
        if parameters["topic"] is None and execute(of_record.encode(), parameters).rowcount:
            return
        while not execute(_INSERT.encode(), parameters).rowcount:
            ((parameters["number"],),) = execute(_FREE_NUMBER.encode(), parameters).fetchall()

    def await_standbys(self) -> None:
        if self._failover:
            await_standbys(self._catalog)

    def write_blocked(self, letter: DeadLetter, behind: tuple[str, bytes] | None = None) -> bool:
        parameters = self._parameters(letter, "")
        own = (parameters["topic"], letter.key)
        topic, key = own if behind is None else (stored_text(behind[0]), behind[1])
        connection = self._catalog.connection
        with meaning(connection), connection.transaction():  # the second statement sees what the lock waited for
            for locked in sorted({own, (topic, key)}):
                connection.execute(DEAD_LETTER_KEY_LOCK, (self._slot, *locked))
            held = {**parameters, "topic": topic, "key": key}
            ((blocked,),) = connection.execute(_BLOCKS.encode(), held).fetchall()
            if blocked:
                self._write(parameters)
            return bool(blocked)

    def settled(self, start: LSN) -> dict[RecordKey, list[DeadLetter]]:
        """The dead letters of what streams from `start` on, by record and without their contents."""
        rows = self._catalog.rows(
            "SELECT commit_lsn::text, ordinal, number, record_id, status, error, reason, topic, key"
            f" FROM {TABLE} WHERE slot_name = %s AND commit_lsn >= %s::pg_lsn"
            " AND (error, status) <> (%s, 'skipped') ORDER BY commit_lsn, ordinal, number",
            self._slot,
            str(start),
            UNDECODABLE,  # the decoder goes by them
        )
        return of_records(_without_content(row) for row in rows)

    def blocked_keys(self, *, begun: bool = False) -> dict[tuple[str, bytes], Origin]:
        """Topics and keys with an open dead letter, and the origin of the first one of each. `begun`: only those that
        others wait for already.
        """
        waits = f"SELECT FROM {TABLE} b WHERE b.slot_name = l.slot_name AND b.topic = l.topic AND b.key = l.key"
        only = f" AND EXISTS ({waits} AND b.status = 'blocked')" if begun else ""
        rows = self._catalog.rows(
            "SELECT DISTINCT ON (topic, key) topic, key, commit_lsn::text, ordinal, number, record_id"
            f" FROM {TABLE} l WHERE slot_name = %s AND status IN ('waiting', 'blocked')"
            f" AND topic IS NOT NULL AND key IS NOT NULL{only} ORDER BY topic, key, commit_lsn, ordinal, number",
            self._slot,
        )
        return {(topic, bytes(key)): Origin(LSN.parse(lsn), *origin) for topic, key, lsn, *origin in rows}

    def first_open(self, topic: str, key: bytes) -> Origin | None:
        rows = self._catalog.rows(
            f"SELECT commit_lsn::text, ordinal, number, record_id FROM {TABLE} WHERE slot_name = %s AND topic = %s"
            " AND key = %s::bytea AND status IN ('waiting', 'blocked') ORDER BY commit_lsn, ordinal, number LIMIT 1",
            self._slot,
            stored_text(topic),
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
            "record_id": stored_id(origin.record_id),
            "sink": self._sink_of(topic),
            "topic": None if topic is None else stored_text(topic),
            "key": key,
            "status": status,
            "error": error,
            "reason": stored_text(reason),
            "attempts": attempts,
            "record": record and record_json(record),
            "message": message and message_json(message),
            "raw": raw,
            "closed_by": by if status == "skipped" else None,
        }


def _without_content(row: Sequence[Any]) -> DeadLetter:
    lsn, ordinal, number, record_id, status, error, reason, topic, key = row
    origin = Origin(LSN.parse(lsn), ordinal, number, record_id)
    return DeadLetter(origin, status, error, reason, topic, None if key is None else bytes(key))


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


def readable(catalog: Catalog) -> bool:
    """Whether there is a table, and this role may read it."""
    return bool(catalog.value(f"SELECT has_table_privilege(to_regclass('{TABLE}'), 'SELECT')"))


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
