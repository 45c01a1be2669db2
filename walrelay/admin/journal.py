"""walrelay.audit_log and walrelay.jobs: who changed what, and how far it got. Without them nothing is changed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Literal, NamedTuple

from walrelay.admin.access import Caller
from walrelay.errors import Fatal, WalrelayError
from walrelay.postgres.catalog import Catalog
from walrelay.unforeseen import explained

JobState = Literal["running", "done", "failed", "interrupted"]

_LOCKS = 7302  # the first key of the advisory locks that say which jobs are at work
_TABLES = ("walrelay.audit_log", "walrelay.jobs")

# A job whose process has ended holds no lock, whatever its row says.
_AT_WORK = (
    f"EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = {_LOCKS}"
    " AND l.objid = j.id %% 2147483647 AND l.granted"
    " AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))"
)
_JOB = (
    f"id, action, request, caller, CASE WHEN state = 'running' AND NOT {_AT_WORK} THEN 'interrupted' ELSE state END,"
    " total, counts, notes, error, hint, begun_at, changed_at"
)
_RESULT = "to_json(j)->'result'"  # of a table of an earlier version too, which has no such column


class Asked(NamedTuple):
    """What somebody wants changed."""

    caller: Caller
    address: str
    action: str
    request: Mapping[str, Any]


class StoredJob(NamedTuple):
    """A row of walrelay.jobs. `counts`: how many by outcome. `notes`: what is to be said of single ones, of a few.
    `result`: what it found; None in a list.
    """

    id: int
    action: str
    request: dict[str, Any]
    caller: str
    state: JobState
    total: int
    counts: dict[str, int]
    notes: list[str]
    error: str
    hint: str
    begun_at: datetime
    changed_at: datetime
    result: Any = None


class AuditEntry(NamedTuple):
    """A row of walrelay.audit_log. `outcome`: None where it was about to begin."""

    id: int
    at: datetime
    caller: str
    way: str
    address: str
    action: str
    request: dict[str, Any]
    job: int | None
    outcome: str | None


class AdminJournal:
    """Both tables for one slot. Fatal where one is missing, or where the slot belongs to another database."""

    def __init__(self, catalog: Catalog, slot: str) -> None:
        self._catalog, self._slot = catalog, slot
        catalog.slot(slot)  # Fatal for one of another database: its jobs came along with a copy of that database
        for table in _TABLES:
            if catalog.value("SELECT to_regclass(%s)", table) is None:
                raise Fatal(
                    f"there is no table {table}, so nothing is changed by way of the API",
                    hint="`walrelay init` makes it; existing objects stay as they are.",
                )

    def begin(self, asked: Asked, total: int) -> int:
        """Notes what is about to be done; returns the job's id. The job is at work as long as the connection lives, or
        until `end`.
        """
        self._catalog.commits_survive()
        with self._catalog.connection.transaction():
            id_ = self._catalog.value(
                "INSERT INTO walrelay.jobs (slot_name, action, request, caller, state, total)"
                " VALUES (%s, %s, %s, %s, 'running', %s) RETURNING id",
                self._slot,
                asked.action,
                json.dumps(asked.request),
                asked.caller.name,
                total,
            )
            self._log(asked, id_, None)
            self._catalog.rows(f"SELECT pg_advisory_lock({_LOCKS}, (%s::bigint %% 2147483647)::int)", id_)
        return int(id_)

    def progress(self, job: int, counts: Mapping[str, int], notes: Sequence[str]) -> None:
        self._catalog.run(
            "UPDATE walrelay.jobs SET counts = %s, notes = %s, changed_at = clock_timestamp() WHERE id = %s",
            json.dumps(counts),
            json.dumps(notes),
            job,
        )

    def refuse_old_table(self) -> None:
        """Fatal for a job that a table of an earlier version cannot hold."""
        if "result" not in self._catalog.column_types("walrelay.jobs"):
            raise Fatal(
                "the table walrelay.jobs was made by an earlier version, and cannot hold what such a job is to tell",
                hint="`walrelay init` brings it up to date.",
            )

    def note_result(self, job: int, result: Any) -> None:
        """Text of databases without an encoding, or of brokers, may be none: JSON cannot hold that."""
        text = json.dumps(result, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()
        self._catalog.run("UPDATE walrelay.jobs SET result = %s WHERE id = %s", text, job)

    def end(self, job: int, asked: Asked, state: JobState, outcome: str, error: str = "", hint: str = "") -> None:
        with self._catalog.connection.transaction():
            self._catalog.run(
                "UPDATE walrelay.jobs SET state = %s, error = %s, hint = %s, changed_at = clock_timestamp()"
                " WHERE id = %s",
                state,
                error,
                hint,
                job,
            )
            self._log(asked, job, outcome)
        with suppress(WalrelayError):  # a connection that is gone holds no lock
            self._catalog.rows(f"SELECT pg_advisory_unlock({_LOCKS}, (%s::bigint %% 2147483647)::int)", job)

    @contextmanager
    def change(self, asked: Asked) -> Iterator[None]:
        """A change that is done at once, inside: noted before it, and with its outcome after it."""
        self._catalog.commits_survive()
        self._log(asked, None, None)
        try:
            yield
        except Exception as error:
            with suppress(WalrelayError):  # the server is away: what is in the log says that it was about to begin
                self._log(asked, None, f"failed: {explained(error)}")
            raise
        self._log(asked, None, "done")

    def jobs(self, limit: int, before: int | None = None) -> list[StoredJob]:
        """The latest first; `before`: those with smaller ids."""
        rows = self._catalog.rows(
            f"SELECT {_JOB} FROM walrelay.jobs j WHERE slot_name = %s AND id < coalesce(%s::bigint, id + 1)"
            " ORDER BY id DESC LIMIT %s",
            self._slot,
            before,
            limit,
        )
        return [StoredJob(*row) for row in rows]

    def job(self, id_: int) -> StoredJob | None:
        rows = self._catalog.rows(
            f"SELECT {_JOB}, {_RESULT} FROM walrelay.jobs j WHERE slot_name = %s AND id = %s", self._slot, id_
        )
        return next((StoredJob(*row) for row in rows), None)

    def entries(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """The latest first; `before`: those with smaller ids."""
        rows = self._catalog.rows(
            "SELECT id, at, caller, way, address, action, request, job, outcome FROM walrelay.audit_log"
            " WHERE slot_name = %s AND id < coalesce(%s::bigint, id + 1) ORDER BY id DESC LIMIT %s",
            self._slot,
            before,
            limit,
        )
        return [AuditEntry._make(row) for row in rows]

    def _log(self, asked: Asked, job: int | None, outcome: str | None) -> None:
        caller = asked.caller
        self._catalog.run(
            "INSERT INTO walrelay.audit_log (slot_name, caller, way, address, action, request, job, outcome)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            self._slot,
            caller.name,
            caller.way,
            asked.address,
            asked.action,
            json.dumps(asked.request),
            job,
            outcome,
        )
