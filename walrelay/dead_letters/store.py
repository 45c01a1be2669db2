"""The relay's side of the dead letters: written one by one, each durable on return, and found again after a crash."""

from typing import Any

from walrelay.dead_letter import UNDECODABLE, WHOLE_TRANSACTION, Letter, Place, message_json, record_json
from walrelay.dead_letters.session import TABLE, meaning, missing, text
from walrelay.lsn import LSN, ZERO
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.failures import Denied
from walrelay.postgres.locks import OF_A_KEY
from walrelay.postgres.standbys import await_standbys

_COLUMNS = (
    "slot_name, commit_lsn, ordinal, number, record_id, sink, topic, key, status, error, reason, attempts, record,"
    " message, raw, closed_at, closed_by"
)
_VALUES = (
    "%(slot)s, %(commit_lsn)s::pg_lsn, %(ordinal)s, %(number)s, %(record_id)s, %(sink)s, %(topic)s, %(key)s::bytea,"
    " %(status)s, %(error)s, %(reason)s, %(attempts)s, %(record)s::json, %(message)s::json, %(raw)s::bytea,"
    " CASE WHEN %(status)s = 'skipped' THEN clock_timestamp() END, %(closed_by)s"
)
_AGAIN = (  # a crash had the record read again; what was said of it first stands
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


class DeadLetters:
    """The letters of one slot; implements `walrelay.publish.Letters`. Fatal where the table is missing."""

    def __init__(self, catalog: Catalog, slot: str, sink: str) -> None:
        self._slot, self._sink = slot, sink
        self.over(catalog)

    def over(self, catalog: Catalog) -> None:
        """From now on over this connection."""
        self._catalog = catalog
        if not present(catalog):
            raise missing()
        catalog.commits_survive()
        slot = catalog.slot(self._slot)
        self._failover = slot is not None and slot.failover

    def keep(self, letter: Letter) -> None:
        self._write(f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES ({_VALUES}){_AGAIN}", letter, "policy")

    def skip(self, letter: Letter, by: str) -> None:
        """Writes the letter as skipped by an operator, whose word counts whatever an earlier run made of it."""
        self._write(f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES ({_VALUES}){_AGAIN}{_CLOSED}", letter, by)

    def _write(self, statement: str, letter: Letter, by: str) -> None:
        with meaning(self._catalog.connection):
            self._catalog.connection.execute(statement.encode(), self._parameters(letter, by))

    def survive(self) -> None:
        if self._failover:
            await_standbys(self._catalog)

    def block(self, letter: Letter) -> bool:
        parameters = self._parameters(letter, "")
        connection = self._catalog.connection
        with (
            meaning(connection),
            connection.transaction(),
        ):  # two statements: the second one sees what the lock waited for
            connection.execute(OF_A_KEY, (self._slot, parameters["topic"], letter.key))
            return connection.execute(_BLOCK.encode(), parameters).rowcount > 0

    def settled(self, start: LSN) -> dict[Place, Letter]:
        """What is set aside of that which streams from `start` on, without its content."""
        rows = self._catalog.rows(
            "SELECT commit_lsn::text, ordinal, number, record_id, status, error, reason, topic"
            f" FROM {TABLE} WHERE slot_name = %s AND commit_lsn >= %s::pg_lsn AND error <> %s",
            self._slot,
            str(start),
            UNDECODABLE,
        )
        places = (Place(LSN.parse(row[0]), *row[1:4]) for row in rows)
        return {place: Letter(place, *row[4:]) for place, row in zip(places, rows, strict=True)}

    def blocked_keys(self) -> dict[tuple[str, bytes], Place]:
        """Topics and keys with an open letter, and the first one of each."""
        rows = self._catalog.rows(
            "SELECT DISTINCT ON (topic, key) topic, key, commit_lsn::text, ordinal, number, record_id"
            f" FROM {TABLE} WHERE slot_name = %s AND status IN ('waiting', 'blocked')"
            " AND topic IS NOT NULL AND key IS NOT NULL ORDER BY topic, key, commit_lsn, ordinal, number",
            self._slot,
        )
        return {(topic, bytes(key)): Place(LSN.parse(lsn), *place) for topic, key, lsn, *place in rows}

    def first_open(self, topic: str, key: bytes) -> Place | None:
        rows = self._catalog.rows(
            f"SELECT commit_lsn::text, ordinal, number, record_id FROM {TABLE} WHERE slot_name = %s AND topic = %s"
            " AND key = %s::bytea AND status IN ('waiting', 'blocked') ORDER BY commit_lsn, ordinal, number LIMIT 1",
            self._slot,
            text(topic),
            key,
        )
        return next((Place(LSN.parse(lsn), *place) for lsn, *place in rows), None)

    def _parameters(self, letter: Letter, by: str) -> dict[str, Any]:
        place, status, error, reason, topic, key, record, message, raw, attempts = letter
        return {
            "slot": self._slot,
            "commit_lsn": str(place.commit_lsn),
            "ordinal": place.ordinal,
            "number": place.number,
            "record_id": text(place.record_id),
            "sink": self._sink,
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
    """Returns when whatever was kept before this run survives a failover that `slot` survives, where it stands now: by
    a run that was killed, or by `walrelay skip`. The records of these letters are passed over from here on.
    """
    if not slot.failover or not present(catalog):
        return
    query = f"SELECT EXISTS (SELECT FROM {TABLE} WHERE slot_name = %s AND commit_lsn >= %s::pg_lsn)"
    try:
        kept = catalog.value(query, slot.name, str(slot.confirmed_flush_lsn or ZERO))
    except Denied:  # who may not read them passes over nothing
        return
    if kept:
        await_standbys(catalog)


def present(catalog: Catalog) -> bool:
    """Whether the table is there."""
    return catalog.value(f"SELECT to_regclass('{TABLE}')") is not None


def skips(catalog: Catalog, slot: str) -> frozenset[tuple[LSN, int | None]]:
    """The positions still to come that `walrelay skip` named, or that the policy skipped before a crash; ordinal None:
    of a non-transactional message. A role that may not read the table is not told of any, and stops at them as it would
    without it.
    """
    if not present(catalog):
        return frozenset()
    confirmed = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
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
    """How many letters are open; None where there is no table for them, or none that the role may read."""
    if not present(catalog):
        return None
    query = f"SELECT count(*) FROM {TABLE} WHERE slot_name = %s AND status IN ('waiting', 'blocked')"
    try:
        return int(catalog.value(query, slot))
    except Denied:
        return None
