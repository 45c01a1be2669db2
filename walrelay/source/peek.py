"""Reading a slot beside its relay, for `walrelay tail`: what waits in it, or what is committed from now on.

`Peek` reads what waits without moving the slot: pg_logical_slot_peek_binary_changes, as the frames of a stream. The
server collects the whole answer, in a temporary file where it is large, and releases the slot before the first row
arrives; so neither a slow reader nor a large backlog costs the relay its slot or this process its memory. The server
can stop only after a transaction and after so many rows, of which a record is one of several. So a small limit is
asked for in rounds, each for more rows than the last, that go on behind the last row of the round before.

`temporary_stream` makes a slot that ends with its connection and streams what is committed from now on.
"""

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from uuid import uuid4

from walrelay.errors import Fatal, Retryable, WalrelayError
from walrelay.lsn import LSN
from walrelay.postgres import connect, failures
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.standbys import blocking_standbys
from walrelay.source.stream import Stream, Timing
from walrelay.wire.commands import Options, create_temporary_slot
from walrelay.wire.frames import xlogdata

_PEEK = b"""
    SELECT (lsn - '0/0')::int8, xid::text::int8, data
    FROM pg_logical_slot_peek_binary_changes(%s::name, NULL, %s::int4, VARIADIC %s::text[])
"""
_ROWS_A_RECORD = 4  # Begin, Relation, Insert, Commit
_GROWTH = 8
_FEWEST, _MOST = 1000, 2**31 - 1
_PATIENCE, _LOOK = 30.0, 1.0  # seconds: to wait for standbys, and between two looks at what is waited for

Row = tuple[int, int, bytes]


class Peek:
    """One slot on the server of the catalog `beside` it, and the options for its plugin. `publication` is for messages;
    None for wal2json, which has none.
    """

    def __init__(
        self,
        dsn: str,
        beside: Catalog,
        slot: str,
        publication: str | None,
        options: Options,
        notice: Callable[[str], None],
    ) -> None:
        self._dsn, self._beside, self._slot, self._publication = dsn, beside, slot, publication or ""
        self._options = [text for option in options for text in option]
        self._notice = notice

    def frames(self, records: int | None) -> Generator[bytes, None, None]:
        """XLogData frames of whole transactions, until they surely hold `records` records; None: all that waits."""
        with closing(connect.ordinary(self._dsn, statement_timeout=0)) as connection:
            connection.add_notice_handler(self._heard)
            if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
                connection.execute("SET client_encoding = 'SQL_ASCII'")  # as on a walsender
            self._beside.refuse_another_server(connect.backend(connection))
            connection.patience = math.inf  # the server may decode for long before the first row
            connection.meanwhile = _Standbys(connection, self._beside, self._slot, self._notice).look
            rounds = self._rounds(connection, _rows_for(records))
            try:
                yield from (xlogdata(lsn, lsn, data) for lsn, _, data in rounds)
            except failures.PostgresError as cause:
                raise self._failure(cause) from cause

    def _rounds(self, connection: connect.Connection, at_least: int | None) -> Iterator[Row]:
        last: tuple[int, int] | None = None
        while True:
            count, reached = 0, last is None
            for row in self._rows(connection, at_least):
                count += 1
                if reached:
                    yield row
                    last = row[:2]
                else:  # a Commit's position and transaction: no other row has both
                    reached = row[:2] == last
            if not reached:
                raise Retryable(f"slot {self._slot!r} was moved while it was read: a relay works on it")
            if at_least is None or count < at_least:
                return
            at_least = min(at_least * _GROWTH, _MOST)

    def _rows(self, connection: connect.Connection, at_least: int | None) -> Iterator[Row]:
        parameters = (self._slot, at_least, self._options)
        yield from connection.cursor().stream(_PEEK, parameters, binary=True)

    def _heard(self, notice: failures.Notice) -> None:
        text = notice.message_primary or ""
        if not failures.about_a_standby(text):  # _Standbys reports that, with a hint
            self._notice(text)

    def _failure(self, error: failures.PostgresError) -> WalrelayError:
        if error.sqlstate == "55006":
            return Fatal(
                f"slot {self._slot!r} cannot be peeked while it is in use: {failures.first_line(error)}",
                hint="A relay is reading it. `walrelay tail --follow` shows what is committed from now on, on a"
                " temporary slot beside it.",
                page="server",
            )
        if error.sqlstate in ("53100", "53400"):  # disk_full; configuration_limit_exceeded, here of temporary files
            return Fatal(
                f"the server has no room to collect what waits in slot {self._slot!r}: {failures.first_line(error)}",
                hint="Ask for less, as in `walrelay tail --limit 100`; or make room on the server's disk, or raise its"
                " temp_file_limit.",
                page="server",
            )
        if error.sqlstate is None:
            return Retryable(f"the connection to PostgreSQL broke: {failures.first_line(error)}")
        return failures.of(error, slot=self._slot, publication=self._publication)


class _Standbys:
    """Standbys that have to be ahead of a failover slot before any of it is shown: PostgreSQL waits for them without
    end, and reports only some of them.
    """

    def __init__(
        self, connection: connect.Connection, beside: Catalog, slot: str, notice: Callable[[str], None]
    ) -> None:
        self._connection, self._beside, self._slot, self._notice = connection, beside, slot, notice
        self._next, self._waited = _LOOK, 0.0
        self._since: float | None = None

    def look(self, waited: float) -> None:
        """To be called while an answer has taken `waited` seconds. Reports the standbys it waits for; Fatal if it takes
        too long.
        """
        if waited < self._waited:  # another answer
            self._next, self._since = _LOOK, None
        self._waited = waited
        if waited < self._next:
            return
        self._next = waited + _LOOK
        trouble = blocking_standbys(self._beside, self._slot)
        if not trouble:
            self._since = None
        elif self._since is None:
            self._since = waited
            self._notice(f"nothing of slot {self._slot!r} is shown until a standby has it: {trouble}")
        elif waited - self._since > _PATIENCE:
            self._connection.cancel_safe(timeout=_LOOK)  # else the server would wait on, with the slot in use
            raise Fatal(
                f"slot {self._slot!r} cannot be looked into: PostgreSQL waits for {trouble}",
                hint="Start the standby, or take its slot out of synchronized_standby_slots; then try again.",
                page="server",
            )


def _rows_for(records: int | None) -> int | None:
    return None if records is None else min(max(records * _ROWS_A_RECORD, _FEWEST), _MOST)


_SLOT_PATIENCE = 10  # seconds; a new slot begins behind each transaction that was writing when it was asked for


def temporary_stream(
    dsn: str,
    plugin: str,
    publication: str | None,
    options: Options,
    timing: Timing,
    catalog: Catalog,
    notice: Callable[[str], None],
) -> Stream:
    """Makes a temporary slot and starts its stream. The reader has to confirm, or the slot holds back WAL."""
    slot = f"walrelay_tail_{uuid4().hex[:12]}"
    stream = Stream(dsn, slot, publication or "", timing, notice)
    try:
        catalog.refuse_another_server(stream.backend)
        stream.command(f"SET lock_timeout = '{_SLOT_PATIENCE}s'")
        _, start, *_ = stream.command(create_temporary_slot(slot, plugin))
        stream.command("SET lock_timeout = 0")
        stream.start_stream(LSN.parse(start), options)
        catalog.refuse_synchronous(stream.pid)
    except BaseException:
        stream.close()
        raise
    return stream
