"""Idempotency keys: a command is carried out once; sent again, it gets the answer that was stored.

The key is claimed by a row that is inserted before the command's own statements and committed with them and with the
answer. So a crash or a rollback leaves no key, and the next request may try. If two requests have the same key, the
second waits at the primary key for the first, then gets its answer.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from walrelay.connections import Row, Statement, Steps
from walrelay.ddl import script
from walrelay.inbox.block import Block, done
from walrelay.inbox.table import Table, earlier, executed, forgotten

Headers = Iterable[tuple[str, str]] | Mapping[str, str]


class IdempotencyConflict(Exception):
    """The key came before with another request: the client uses one key for two commands."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the idempotency key {key!r} was used for another request before. A key belongs to one command:"
            " send the same request again with it, or this one with a new key."
        )
        self.key = key


class Unanswered(RuntimeError):
    """A block with a claimed key ended without a response; it is rolled back."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the idempotency key {key!r} was claimed, and the block ended without command.respond(...): a repetition"
            " would have got an empty answer."
        )


class Response(NamedTuple):
    """Headers are pairs, because names may occur twice."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Command:
    """`response` is None for the first request, which has to `respond`; otherwise it is the stored one."""

    def __init__(self, key: str, response: Response | None) -> None:
        self.response = response
        self._key = key
        self._given: Response | None = None

    def respond(self, status: int, headers: Headers = (), body: bytes | str = b"") -> Response:
        """Sets the answer, which is stored at the end of the block; the last call counts."""
        if self.response is not None:
            raise RuntimeError(f"the command with key {self._key!r} was already answered: send command.response")
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        data = body.encode() if isinstance(body, str) else bytes(body)
        self._given = Response(status, tuple((str(name), str(value)) for name, value in pairs), data)
        return self._given

    def given(self) -> Response | None:
        """The response to store, None if one is stored already; Unanswered without `respond`."""
        if self.response is None and self._given is None:
            raise Unanswered(self._key)
        return self._given


class IdempotencyKeys:
    """`table` must exist (`sql()`, or `create`). A key older than `expires` may be used again."""

    def __init__(self, table: str = "public.idempotency_keys", *, expires: timedelta = timedelta(days=1)) -> None:
        self._table, self._expires = Table(table), expires

    def claim(self, connection: object, *, key: str, request: object, scope: str = "") -> Block[Command]:
        """`with keys.claim(...) as command:`, or `async with` for an async connection, around the command.

        `request` is bytes, text, or anything that JSON can express (members in any order): what makes two requests
        the same is yours to choose. `scope`: whose key it is (tenant, user); keys of different scopes are different
        keys. IdempotencyConflict if the key came with another request. An exception that leaves the block removes the
        key. Isolation levels and transactions as in `Inbox.receive`.
        """
        return Block(
            connection,
            "IdempotencyKeys.claim",
            lambda: self._claimed(scope, key, fingerprint(request)),
            lambda command: self._answered(scope, key, command),
        )

    def forget(self, connection: object, *, older_than: timedelta | None = None) -> Any:
        """Deletes keys that have expired, or are older than `older_than`, as `Inbox.forget` does."""
        age = self._expires if older_than is None else older_than
        return done(connection, forgotten(self._table, "claimed_at", age))

    def create(self, connection: object) -> Any:
        """Creates the table if it does not exist; to be awaited on an async connection. Does not commit."""
        return done(connection, executed(self.sql()))

    def sql(self) -> str:
        """What `create` executes, for a migration."""
        return script("idempotency_keys", table=self._table.quoted, index=self._table.index("claimed_at"))

    def _claimed(self, scope: str, key: str, request: str) -> Steps[Command]:
        """A row without an answer is left by an application that committed inside the block: it counts as none."""
        name = {"scope": scope, "key": key}
        seconds = self._expires.total_seconds()
        insert = Statement(
            f"INSERT INTO {self._table.quoted} AS known (scope, key, fingerprint) VALUES (:scope, :key, :request)"
            " ON CONFLICT (scope, key) DO UPDATE SET fingerprint = excluded.fingerprint, status = NULL, headers = NULL,"
            " body = NULL, claimed_at = excluded.claimed_at WHERE known.status IS NULL OR known.claimed_at"
            f" OPERATOR(pg_catalog.<) {earlier('seconds')} RETURNING 1",
            {**name, "request": request, "seconds": seconds},
            answers=True,
        )
        select = Statement(
            f"SELECT fingerprint, status, CAST(headers AS text), body FROM {self._table.quoted}"
            " WHERE scope OPERATOR(pg_catalog.=) :scope AND key OPERATOR(pg_catalog.=) :key",
            name,
            answers=True,
        )
        if (yield insert):
            return Command(key, None)
        # The row is there until this transaction ends: the INSERT has locked it.
        ((known, *stored),) = yield select
        if _plain(known) != request:
            raise IdempotencyConflict(key)
        return Command(key, _response(tuple(stored)))

    def _answered(self, scope: str, key: str, command: Command) -> Steps[None]:
        given = command.given()
        if given is None:
            return
        yield Statement(
            f"UPDATE {self._table.quoted} SET status = CAST(:status AS int), headers = CAST(CAST(:headers AS text) AS"
            " json), body = CAST(:body AS bytea) WHERE scope OPERATOR(pg_catalog.=) :scope"
            " AND key OPERATOR(pg_catalog.=) :key",
            {
                "scope": scope,
                "key": key,
                "status": given.status,
                "headers": json.dumps(given.headers),
                "body": given.body,
            },
        )


def fingerprint(request: object) -> str:
    """The same for the same request. TypeError for what JSON cannot express."""
    if isinstance(request, bytes | bytearray | memoryview):
        return sha256(b"bytes:" + request).hexdigest()
    return sha256(json.dumps(request, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _response(stored: Row) -> Response:
    status, headers, body = stored
    headers = _plain(headers)
    assert isinstance(status, int)
    assert isinstance(headers, str)
    assert isinstance(body, bytes | memoryview)
    return Response(status, tuple((name, value) for name, value in json.loads(headers)), bytes(body))


def _plain(value: object) -> object:
    """psycopg returns text of a database in SQL_ASCII as bytes. All text that is stored here is ASCII."""
    return value.decode() if isinstance(value, bytes) else value
