"""Rows exactly once: the rows of a group and the relay's position are one transaction of the target.

The row of positions has an epoch, and each group ends with an update of that row, for the sink's own epoch. The fence
raises it: then the update of an earlier sink finds no row, and its transaction is rolled back. An earlier one that has
updated the row already has it locked: the fence ends its session, waits for the lock and reads the position behind it.
A sink that connects again raises the epoch only if it is still its own.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import errors, sql

from walrelay.errors import Retryable, SinkError, Superseded, WalrelayError
from walrelay.identifiers import qualified_name
from walrelay.model import Message, RelayPosition, System
from walrelay.postgres.failures import first_line
from walrelay.sinks.group_contract import Culprit, GroupTooLarge
from walrelay.sinks.hosting import Misfit, PumpedLoop
from walrelay.sinks.postgres.errors import NoRoomForGroup, broken
from walrelay.sinks.postgres.settings import PostgresSettings
from walrelay.sinks.postgres.writer import TableWriter, TargetMemory

POSITIONS = (
    "CREATE TABLE IF NOT EXISTS {} (system_identifier text, slot_name text, epoch bigint NOT NULL DEFAULT 0,"
    " position jsonb, kept_at timestamptz, backend_pid int, backend_start timestamptz,"
    " PRIMARY KEY (system_identifier, slot_name))"
)
_MINE = "system_identifier = %s AND slot_name = %s"
_OTHERS = (
    "SELECT pg_catalog.pg_terminate_backend(a.pid) FROM {} p JOIN pg_catalog.pg_stat_activity a"
    f" ON a.pid = p.backend_pid AND a.backend_start = p.backend_start WHERE {_MINE}"
    " AND a.pid <> pg_catalog.pg_backend_pid()"
)
_FENCE = (
    "UPDATE {} SET epoch = epoch + 1, backend_pid = pg_catalog.pg_backend_pid(), backend_start ="
    " (SELECT backend_start FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid())"
    f" WHERE {_MINE} AND (%s = 0 OR epoch = %s) RETURNING epoch, position::text"
)
_KEEP = f"UPDATE {{}} SET position = %s, kept_at = pg_catalog.clock_timestamp() WHERE {_MINE} AND epoch = %s"


class TargetGroupSize:
    """As in the settings, and smaller where the target is too slow or has no room for that."""

    def __init__(self, settings: PostgresSettings, memory: TargetMemory) -> None:
        self._settings, self._memory = settings, memory

    @property
    def messages(self) -> int:
        return self._memory.at_most(self._settings.group_messages)

    @property
    def bytes(self) -> int:
        return self._settings.max_in_flight_bytes // 4


class PostgresGroups:
    """Implements `walrelay.sinks.group_contract.GroupStore`."""

    def __init__(self, settings: PostgresSettings, memory: TargetMemory, system: System, slot: str) -> None:
        self._settings, self._memory, self._key = settings, memory, (system.identifier, slot)
        self._table = sql.Identifier(*qualified_name(settings.positions_table))
        self._loop = PumpedLoop()
        self._writer = TableWriter(settings, memory)
        self._work: asyncio.Task[Culprit | None] | None = None
        self._began, self._group = 0.0, 0  # how many messages
        self._epoch = 0  # of this store; 0: it was never fenced
        self._position: RelayPosition | None = None
        self._trouble = "not connected to the database of the sink yet"

    def fence(self, timeout: float) -> bool:
        if self._work is None:
            self._writer.abort()
            self._writer, self._group = TableWriter(self._settings, self._memory), 0
            self._start(self._fence())
        fenced = self.step(timeout) is True
        self._trouble = "" if fenced else "not connected to the database of the sink yet"
        return fenced

    def last(self) -> RelayPosition | None:
        return self._position

    def misfit(self, message: Message) -> Misfit | None:
        return self._writer.misfit(message)

    def begin(self, messages: Sequence[Message], position: RelayPosition) -> None:
        async def keep(writer: TableWriter) -> None:
            parameters = [position.as_json().decode(), *self._key, self._epoch]
            cursor = await writer.execute(sql.SQL(_KEEP).format(self._table), parameters)
            if cursor.rowcount != 1:
                raise self._superseded()

        self._group = len(messages)
        self._start(self._writer.write(messages, keep))

    def step(self, timeout: float) -> bool | Culprit:
        self._loop.pump(0 if self._work is not None and self._work.done() else timeout)
        work = self._work
        if work is None:
            return False
        if not work.done():
            if monotonic() - self._began <= self._settings.request_timeout:
                return False
            self._work = None
            work.cancel()
            self._writer.abort()
            why = f"the database of the sink has not answered for {self._settings.request_timeout:g} s"
            if not self._memory.too_many(self._group):
                raise Retryable(why)
            raise GroupTooLarge(f"{why} to a group of {self._group} messages")
        self._work = None
        try:
            refused = work.result()
        except NoRoomForGroup as why:
            if not self._memory.too_many(self._group):
                raise
            raise GroupTooLarge(f"{why}, for a group of {self._group} messages") from why
        except WalrelayError:
            raise
        except psycopg.Error as why:
            raise broken(why) from why
        if refused is None and monotonic() - self._began < self._settings.request_timeout / 4:
            self._memory.written(self._group)
        return True if refused is None else refused

    def descriptor(self) -> int | None:
        return self._loop.descriptor

    def trouble(self) -> str:
        return self._trouble

    def close(self) -> None:
        self._writer.abort()
        self._loop.let_go()

    def _start(self, work: Coroutine[Any, Any, Culprit | None]) -> None:
        self._began = monotonic()
        self._work = self._loop.create_task(work)
        self._work.add_done_callback(lambda _: self._loop.wake())

    async def _fence(self) -> None:
        await self._writer.connect()
        try:
            await self._make_table()
            with suppress(errors.InsufficientPrivilege):  # another role's: it ends by itself
                await self._execute(_OTHERS, *self._key)
            # Behind that: it waits for whoever has updated the row.
            insert = "INSERT INTO {} (system_identifier, slot_name) VALUES (%s, %s) ON CONFLICT DO NOTHING"
            await self._execute(insert, *self._key)
            cursor = await self._execute(_FENCE, *self._key, self._epoch, self._epoch)
            fenced = await cursor.fetchall()
        except errors.InsufficientPrivilege as why:
            raise SinkError(
                f"the role of sink.dsn may not keep positions in {self._settings.positions_table}: {first_line(why)}",
                hint=f"GRANT SELECT, INSERT, UPDATE ON {self._settings.positions_table} TO the role;"
                " `walrelay init --topics` makes the table, where the role may.",
            ) from why
        except psycopg.ProgrammingError as why:
            raise SinkError(
                f"{self._settings.positions_table} cannot hold positions: {first_line(why)}",
                hint="It is another table than walrelay makes, or its schema is missing: correct sink.positions_table.",
            ) from why
        if not fenced:
            raise self._superseded()
        ((self._epoch, text),) = fenced
        self._position = None if text is None else self._parsed(text)

    def _superseded(self) -> Superseded:
        return Superseded(f"another instance publishes for slot {self._key[1]!r} now")

    def _parsed(self, text: str) -> RelayPosition:
        try:
            return RelayPosition.of_json(text.encode())
        except (ValueError, TypeError, LookupError) as why:
            raise SinkError(
                f"the position in {self._settings.positions_table} cannot be read: {text[:100]}",
                hint="Something else wrote to the table. Give relays one of their own: sink.positions_table; with"
                " `walrelay run --from-slot` the relay begins where the slot stands.",
            ) from why

    async def _make_table(self) -> None:
        """Asked first: to create it needs a right, even where it is there."""
        name = self._table.as_string()
        cursor = await self._writer.execute("SELECT pg_catalog.to_regclass(%s) IS NULL", [name])
        ((missing,),) = await cursor.fetchall()
        if missing:
            await self._execute(POSITIONS)

    async def _execute(self, text: str, *parameters: Any) -> psycopg.AsyncCursor[Any]:
        return await self._writer.execute(sql.SQL(text).format(self._table), parameters)
