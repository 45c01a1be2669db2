"""A replication slot that streams: CopyBoth through psycopg's libpq, and the status updates that keep it alive.

What a status update says (guarantees A5, A6, A9): `write` is all that was received, so that the server neither asks
again and again nor waits for us at a fast shutdown; `flush` is what became safe since the last update, and 0/0 when
that is nothing. Only `flush` moves the slot, and PostgreSQL believes any value. So before each send

    previous flush <= flush <= highest position received on this connection

must hold, or nothing is sent and the run ends with a LedgerError.
"""

import select
from collections.abc import Callable, Sequence
from time import monotonic, time_ns
from typing import NamedTuple

from walrelay.errors import Disconnected, LedgerError, WalrelayError
from walrelay.lsn import LSN, ZERO
from walrelay.model import System
from walrelay.postgres import connect
from walrelay.postgres.failures import (
    ConnectionBroke,
    about_a_standby,
    connection_broke,
    is_a_standby,
    of_result,
    publication_skipped,
    server_message,
    source_file,
    sqlstate_of,
)
from walrelay.postgres.history import timeline_ends, timeline_start
from walrelay.wire import wal2json
from walrelay.wire.commands import Options, start_replication
from walrelay.wire.frames import KEEPALIVE, XLOGDATA, parse_keepalive, status_update

_NOWHERE = LSN(0xFFFFFFFF_00000000)
_LEAVE_TIMEOUT = 3.0  # seconds for the server to acknowledge the end of the stream
_LOOK = 0.05  # seconds; the shortest wait for a connection that is silent


class Timing(NamedTuple):
    """Seconds; see the settings of the same names."""

    confirm_interval: float = 0.1
    receive_timeout: float = 60.0


class Stream:
    """One replication connection, owned by one thread; after any error it is closed and not used again."""

    def __init__(
        self,
        dsn: str,
        slot: str,
        publication: str,
        timing: Timing,
        notice: Callable[[str], None],
        wakes: Sequence[int] = (),
    ) -> None:
        """`wakes`: descriptors; the first time that one is readable since the stream began ends a `read` early."""
        self._slot, self._publication, self._timing, self._report = slot, publication, timing, notice
        self._connection = connect.replication(dsn)
        self._connection.patience = timing.receive_timeout
        self._pgconn = self._connection.pgconn
        self._pgconn.notice_handler = self._notice
        self.backend = connect.backend(self._connection)
        patience = int(self.command("SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'")[0]) / 1000
        self._heartbeat = min(10.0, patience / 6) if patience else 10.0
        self._idle_limit = patience or 60.0
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        self._sinks: int | None = None  # the descriptor of the sink
        self._wakes, self._asleep = wakes, set[int]()
        self._fatal: WalrelayError | None = None
        self._asked = False  # the server requested a status update
        self._pinged = False  # a reply was requested from the server
        self._silence = 0.0  # seconds waited since the server was last heard
        self._received = bytes(8)  # the highest position received, big-endian: bytes compare as numbers do
        self._flushed = self.start = ZERO
        self._ends_inside = False
        self._options: Options = ()
        self._sent_at, self._streams = 0.0, False  # when the last status update was sent

    @property
    def connection(self) -> connect.Connection:
        """For queries that have to be asked on the connection that streams, before it does."""
        return self._connection

    @property
    def heartbeat(self) -> float:
        """Seconds between two signs of life that the server needs."""
        return self._heartbeat

    @property
    def pid(self) -> int:
        """The walsender's process id."""
        return self.backend.pid

    def command(self, text: str) -> list[str]:
        """The first row of a replication command's result (or of a query without parameters)."""
        return self._row(connect.answer(self._connection, text))

    def refuse_standby(self) -> None:
        """Retryable on a standby. A walsender outlives a promotion, so this is asked before anything that a promotion
        changes; a primary keeps its timeline for as long as this connection lives.
        """
        if self.command("SELECT pg_is_in_recovery()")[0] == "t":
            raise is_a_standby()

    def identify(self) -> System:
        """Which history of WAL the server writes; on a standby, the one that a promotion will end."""
        identifier, number, *_ = self.command("IDENTIFY_SYSTEM")
        return System(identifier, (timeline := int(number)), timeline_start(timeline, self.branches(timeline)))

    def branches(self, timeline: int) -> dict[int, LSN]:
        """Where the timelines before that one ended, as far as the server still knows."""
        if timeline == 1:
            return {}
        result = connect.answer(self._connection, f"TIMELINE_HISTORY {timeline}")
        if sqlstate_of(result) == connect.NO_FILE:
            return {}
        return timeline_ends(self._row(result)[1])

    def wake_by(self, descriptor: int | None) -> None:
        """From now on a `read` ends early whenever that is readable; the one before is forgotten."""
        if self._sinks is not None:
            self._poll.unregister(self._sinks)
        self._sinks = descriptor
        if descriptor is not None:
            self._poll.register(descriptor, select.POLLIN)

    def start_stream(self, start: LSN, options: Options, *, confirmed: LSN | None = None) -> None:
        """The slot's own position is the floor: the server moves a lower `start` up to it. `confirmed`: up to where all
        is durable, if not up to `start`.
        """
        result = connect.answer(self._connection, start_replication(self._slot, start, options))
        if result.status != connect.Status.COPY_BOTH:
            raise self._failed(result)
        self._pgconn.nonblocking, self._streams = 1, True
        self._asleep = {*self._wakes}
        for descriptor in self._wakes:
            self._poll.register(descriptor, select.POLLIN)
        self._flushed, self.start = start if confirmed is None else confirmed, start
        self._ends_inside = ("format-version", "1") in options  # wal2json's; the frames' headers say too little
        self._options = options
        self._received = start.to_bytes(8)
        self._silence, self._sent_at, self._asked, self._pinged = 0.0, 0.0, False, False
        self._send(self._flushed)

    def read(self, timeout: float) -> list[bytes]:
        """All frames that are ready; waits up to `timeout` seconds for the first."""
        frames = self._drain()
        if not frames and timeout:
            waited = monotonic()
            self._wait(min(timeout, self._until_doubt))
            frames = self._drain()
            self._silence += monotonic() - waited
        if frames:
            self._silence, self._pinged = 0.0, False
        elif self._silence >= self._timing.receive_timeout:
            raise Disconnected(f"PostgreSQL has been silent for {self._silence:.0f} s; treating the connection as dead")
        if self._fatal:
            raise self._fatal
        return frames

    def confirm(self, lsn: LSN) -> bool:
        """Sends a status update if one is due: by progress, the server's request, time, or doubt whether it lives."""
        age = monotonic() - self._sent_at
        progress = lsn > self._flushed and age >= self._timing.confirm_interval
        ping = not self._pinged and self._silence >= self._timing.receive_timeout / 2
        if progress or self._asked or ping or age >= self._heartbeat:
            return self._send(lsn, ping=ping)
        return False

    def leave(self, lsn: LSN) -> None:
        """Confirms `lsn`, ends the stream and waits until the server has noted it."""
        self._send(lsn)
        try:
            self._pgconn.nonblocking = 0
            self._pgconn.put_copy_end()
            self._pgconn.flush()
            self._wait_for_the_end()
        except ConnectionBroke as cause:
            raise connection_broke(cause) from cause
        self.close()

    def pause(self, stop: Callable[[], bool], confirmed: LSN | None = None) -> None:
        """Confirms, ends the stream and keeps the connection with its lead; `start_stream` starts it again.

        What the server still sends of a transaction is discarded: it comes again. That may take a while, and is
        harmless, because a walsender that can write also serves the checkpointer. Ends early when `stop` is true; then
        the connection cannot be used any more. Until `start_stream`, `command` has to be called more often than
        wal_sender_timeout, or the server ends the connection.
        """
        if not self._streams:
            self.rest()
            return
        patience, self._streams = self._timing.receive_timeout, False
        if confirmed is not None:
            self._send(confirmed)
        result = connect.end_of_copy(self._connection, stop, patience)
        if result is not None and result.status != connect.Status.COMMAND_OK:
            raise self._failed(result)
        # A walsender (18 and before) believes that the end of its next logical stream was asked for already. A physical
        # stream resets that; from a position that does not exist yet it fails before it begins.
        result = connect.answer(self._connection, f"START_REPLICATION PHYSICAL {_NOWHERE}")
        if result.status == connect.Status.COPY_BOTH:
            connect.end_of_copy(self._connection, stop, patience, ask=False)
        self.rest()

    def rest(self) -> None:
        """For a connection that leads and does not stream; see `pause`."""
        # wal_sender_timeout is for streams: without one the lead of a process that is frozen would last for ever.
        connect.answer(self._connection, f"SET idle_session_timeout = {int(self._idle_limit * 1000)}")

    def close(self) -> None:
        """The slot is free as soon as the server notices."""
        self._connection.close()

    @property
    def _until_doubt(self) -> float:
        """Seconds of silence until `confirm` has to ask for a sign of life, or until the connection counts as dead."""
        limit = self._timing.receive_timeout / (1 if self._pinged else 2)
        return max(limit - self._silence, _LOOK)

    def _wait(self, timeout: float) -> None:
        """Until something can be read, or one of `wakes` for the first time; it stays readable."""
        woken = {descriptor for descriptor, _ in self._poll.poll(timeout * 1000)}
        for descriptor in woken & self._asleep:
            self._poll.unregister(descriptor)
            self._asleep.discard(descriptor)

    def _drain(self) -> list[bytes]:
        """Every frame that is there. Reads without asking poll first: TLS may hold bytes that no poll sees."""
        get, frames, received = self._pgconn.get_copy_data, list[bytes](), self._received
        try:
            self._pgconn.consume_input()
            while True:
                size, data = get(1)
                if size <= 0:
                    break
                frame = bytes(data)  # the view is on libpq's buffer
                frames.append(frame)
                if frame[0] == KEEPALIVE:
                    keepalive = parse_keepalive(frame)
                    self._asked |= keepalive.reply_requested
                    received = max(received, frame[1:9])
                elif frame[9:17] > received:
                    received = frame[9:17]
        except ConnectionBroke as cause:
            raise connection_broke(cause) from cause
        if self._ends_inside:
            received = max([received, *(wal2json.end_lsn(frame) for frame in frames if frame[0] == XLOGDATA)])
        self._received = received
        if size < 0:
            raise self._ended()
        return frames

    def _row(self, result: connect.Result) -> list[str]:
        if result.status not in (connect.Status.TUPLES_OK, connect.Status.COMMAND_OK):
            raise self._failed(result)
        return [(result.get_value(0, column) or b"").decode() for column in range(result.nfields)]

    def _wait_for_the_end(self) -> None:
        deadline = monotonic() + _LEAVE_TIMEOUT
        while (left := deadline - monotonic()) > 0:
            size, _ = self._pgconn.get_copy_data(1)
            if size < 0:
                return
            if size == 0:
                self._wait(left)
                self._pgconn.consume_input()

    def _send(self, lsn: LSN, *, ping: bool = False) -> bool:
        """Sends a status update; True if it moved the position. If libpq could not write the previous one yet, none is
        sent.
        """
        received = LSN(int.from_bytes(self._received))
        if not self._flushed <= lsn <= received:
            raise LedgerError(
                f"about to confirm {lsn}, but {self._flushed} was confirmed before and {received} received"
            )
        try:
            if self._pgconn.flush() == 1:
                return False
            progress = lsn > self._flushed or self._sent_at == 0.0
            flush = lsn if progress else ZERO
            sent_at = time_ns() // 1000
            self._pgconn.put_copy_data(
                status_update(write=received, flush=flush, sent_at=sent_at, reply_requested=ping)
            )
            self._pgconn.flush()
        except ConnectionBroke as cause:
            raise connection_broke(cause) from cause
        self._flushed, self._sent_at, self._asked = lsn, monotonic(), False
        self._pinged |= ping
        return progress

    def _ended(self) -> WalrelayError:
        """Why the stream ended: a clean shutdown of the server looks like success (guarantees A42)."""
        result = self._pgconn.get_result()
        if result is None or result.status != connect.Status.FATAL_ERROR:
            return Disconnected("PostgreSQL ended the stream: it is shutting down")
        return self._failed(result)

    def _failed(self, result: connect.Result) -> WalrelayError:
        return of_result(result, slot=self._slot, publication=self._publication, options=self._options)

    def _notice(self, result: connect.Result) -> None:
        text, sqlstate = server_message(result), sqlstate_of(result)
        if about_a_standby(text):
            self._report(
                f"no event comes until a standby has it: {text} (start the standby, or change"
                " synchronized_standby_slots)"
            )
        elif (sqlstate, source_file(result)) == ("55000", "pgoutput.c"):
            self._fatal = publication_skipped(self._publication, text)
        else:
            self._report(text)
