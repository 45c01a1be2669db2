"""A connection to the target database that writes groups of messages: by COPY, each group in one transaction."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import Diagnostic

from walrelay.errors import Retryable
from walrelay.identifiers import qualified_name
from walrelay.model import Message
from walrelay.postgres.session import without_limits
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.group_contract import Culprit, GroupMemory
from walrelay.sinks.hosting.sink import Misfit
from walrelay.sinks.postgres.errors import broken, culprit, not_connected
from walrelay.sinks.postgres.rows import Encode, Unfit, encoder, header_misfit
from walrelay.sinks.postgres.settings import PostgresSettings

# A server that is gone, or a network that went silent, is noticed in half a minute.
_DEFAULTS: dict[str, Any] = {
    "application_name": "walrelay sink",
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# A commit is durable when it returns; a timeout would end its wait for a standby, and it would return all the same. A
# relay that was frozen inside a transaction does not hold it for ever. A session whose relay has given up does not wait
# for a lock for ever: those of later runs would wait behind it, until the server has no room for more.
_SESSION = (
    "SELECT pg_catalog.set_config('synchronous_commit', 'on', false)"
    " WHERE pg_catalog.current_setting('synchronous_commit') = 'off';"
    " SET default_transaction_isolation = 'read committed'; SET default_transaction_deferrable = off;"
    " SET exit_on_error = off; SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = {}"
)
_NOT_WAITED = "SyncRepWaitForLSN"  # what warns of a commit whose wait for a standby was cancelled

_TABLES = 1_000  # whose columns are kept
_TYPES = (
    "WITH RECURSIVE base AS (SELECT attname, atttypid AS type FROM pg_catalog.pg_attribute"
    " WHERE attrelid = pg_catalog.to_regclass(%s) AND attnum > 0 AND NOT attisdropped UNION ALL"
    " SELECT attname, typbasetype FROM base JOIN pg_catalog.pg_type t ON t.oid = type WHERE typtype = 'd')"
    " SELECT attname, pg_catalog.format_type(type, NULL) FROM base JOIN pg_catalog.pg_type t ON t.oid = type"
    " WHERE typtype <> 'd'"
)

Table = tuple[str, ...]
Finish = Callable[["TableWriter"], Awaitable[None]]


class TargetMemory(GroupMemory):
    """What the sinks of one relay know of the target."""

    connected = False  # ever


class TableWriter:
    """Belongs to one loop. After Retryable it is of no use any more."""

    def __init__(self, settings: PostgresSettings, memory: TargetMemory) -> None:
        self._settings, self._memory = settings, memory
        self._dsn = settings.dsn.get_secret_value()
        self._address = AddressTemplate(settings.table)
        self._positions = qualified_name(settings.positions_table)
        self._columns = settings.columns.by_role
        self._connection: AsyncConnection[Any] | None = None
        self._encoders: dict[Table, _Encoder] = {}
        self._warning = ""  # of a commit that may not be durable

    async def connect(self) -> None:
        given = conninfo_to_dict(self._dsn)
        given.pop("replication", None)  # of another tool's DSN
        several = {"target_session_attrs": "primary"} if "," in str(given.get("host", "")) else {}
        parts = {**_DEFAULTS, **several, **given, "client_encoding": "UTF8"}
        try:
            self._connection = await AsyncConnection.connect(autocommit=True, prepare_threshold=None, **parts)
            self._connection.add_notice_handler(self._hear)
            await self.execute(without_limits(self._connection.info.server_version))
            await self.execute(_SESSION.format(int(self._settings.request_timeout * 1000)))
        except psycopg.Error as why:
            raise not_connected(why, self._dsn, ever=self._memory.connected) from why
        self._memory.connected = True

    async def execute(self, query: str | sql.Composed, parameters: Sequence[Any] = ()) -> psycopg.AsyncCursor[Any]:
        """Retryable where a commit returned that its standbys may not have."""
        cursor = await self._open.execute(query, parameters or None)
        if self._warning:
            raise Retryable(f"the database of the sink did not wait for its standbys: {self._warning}")
        return cursor

    def table(self, message: Message) -> Table:
        """Where it goes. NoAddress, ValueError."""
        return _table(self._address(message))

    def misfit(self, message: Message) -> Misfit | None:
        """Why no table can have it, as far as that is known without asking."""
        try:
            table = self.table(message)
        except (NoAddress, ValueError) as why:
            return Misfit(str(why), "Correct sink.table, or the event.", "unroutable")
        if table == self._positions:
            return Misfit(
                f"{'.'.join(table)} is where relays keep their positions", "Correct sink.table.", "unroutable"
            )
        return header_misfit(message.headers) if "headers" in self._columns else None

    async def write(self, messages: Sequence[Message], finish: Finish | None = None) -> Culprit | None:
        """Commits all of them, in their order, and with them what `finish` does at last. If one is refused, none is
        stored. Retryable where the connection broke or another time may do.
        """
        try:
            await self._transaction(messages, finish, "COMMIT")
        except (Unfit, psycopg.Error) as why:
            return await self._first_refused(messages, why)
        return None

    def abort(self) -> None:
        """Nothing that is under way is committed, unless its COMMIT was sent. Never raises."""
        if self._connection is not None:
            self._connection.pgconn.finish()

    @property
    def _open(self) -> AsyncConnection[Any]:
        assert self._connection is not None, "not connected"
        return self._connection

    async def _transaction(self, messages: Sequence[Message], finish: Finish | None, end: str) -> None:
        await self.execute("BEGIN")
        try:
            tables: dict[Table, list[Message]] = {}
            for message in messages:
                tables.setdefault(self.table(message), []).append(message)
            for table, rows in tables.items():
                await self._copy(table, rows)
            if finish is not None:
                await finish(self)
            await self.execute(end)
        except (Unfit, psycopg.Error):
            if not self._open.closed:
                await self.execute("ROLLBACK")
            raise

    async def _copy(self, table: Table, messages: Sequence[Message]) -> None:
        name = sql.Identifier(*table)
        columns = sql.SQL(", ").join(sql.Identifier(column) for column in self._columns.values())
        known = self._encoders.get(table) or await self._learn(table)
        rows = b"".join([known.encode(message) for message in messages])
        async with self._open.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(name, columns)) as copy:
            await copy.write(rows)
        if await self._types(table) != known.types:  # from here on nobody can alter it
            raise Retryable(f"the columns of {name.as_string()} were altered meanwhile")

    async def _learn(self, table: Table) -> "_Encoder":
        """A table or column that is not there is PostgreSQL's to tell."""
        types = await self._types(table)
        made = _Encoder(
            encoder(self._columns, {column: types.get(column, "text") for column in self._columns.values()}), types
        )
        if len(self._encoders) >= _TABLES:
            self._encoders.clear()
        self._encoders[table] = made
        return made

    async def _types(self, table: Table) -> dict[str, str]:
        """Of the columns that are written to."""
        cursor = await self.execute(_TYPES, [sql.Identifier(*table).as_string()])
        wanted = {*self._columns.values()}
        return {column: type_ for column, type_ in await cursor.fetchall() if column in wanted}

    def _hear(self, warning: Diagnostic) -> None:
        if warning.source_function == _NOT_WAITED:
            self._warning = str(warning.message_primary)

    async def _first_refused(self, messages: Sequence[Message], why: Exception) -> Culprit:
        """The message behind which all is refused, found by halves: the text of an error is in the server's language.

        `sound` messages are not refused, `refused` of them are, with the error `why`.
        """
        self._explain(why, 0)  # raises where no message is to blame
        sound, refused = 0, len(messages)
        again = await self._refusal(messages)
        if again is None:
            raise Retryable(f"the database of the sink took nothing: {why}") from why
        while refused - sound > 1:
            middle = (sound + refused) // 2
            found = await self._refusal(messages[:middle])
            if found is None:
                sound = middle
            else:
                again, refused = found, middle
        return self._explain(again, refused - 1)

    async def _refusal(self, messages: Sequence[Message]) -> Exception | None:
        """What refuses them; nothing is stored."""
        try:
            await self._transaction(messages, _check_constraints, "ROLLBACK")
        except (Unfit, psycopg.Error) as why:
            return why
        return None

    def _explain(self, why: Exception, number: int) -> Culprit:
        if isinstance(why, Unfit):
            return Culprit(number, str(why), "Correct the event; or its column is of type bytea.", "serialization")
        assert isinstance(why, psycopg.Error)
        if self._open.closed:
            raise broken(why) from why
        return culprit(why, number)


@lru_cache(1_000)
def _table(text: str) -> Table:
    if "\0" in text:
        raise ValueError(f"{text!r} is not a table")
    return qualified_name(text)


class _Encoder(NamedTuple):
    """How rows of a table are written, and for which types of columns."""

    encode: Encode
    types: Mapping[str, str]


async def _check_constraints(writer: TableWriter) -> None:
    """Those that are deferred to the end of the transaction, too."""
    await writer.execute("SET CONSTRAINTS ALL IMMEDIATE")
