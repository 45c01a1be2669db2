"""The stream over a libpq that is scripted: which status updates are sent, when, and what ends the stream."""

from struct import unpack
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from walrelay.errors import Fatal, LedgerError, Retryable
from walrelay.lsn import LSN
from walrelay.model import System
from walrelay.postgres.connect import Backend
from walrelay.source.stream import Stream, Timing
from walrelay.wire.frames import keepalive, xlogdata


class Status(NamedTuple):
    """What a status update said."""

    write: int
    flush: int
    apply: int
    ping: bool


class Result:
    """A PGresult."""

    def __init__(self, status: ExecStatus, *row: str, sqlstate: str = "", text: str = "", **more: str) -> None:
        """`more`: further fields by their names."""
        self.status, self._row = status, row
        self._fields = {DiagnosticField.SQLSTATE: sqlstate.encode(), DiagnosticField.MESSAGE_PRIMARY: text.encode()}
        self._fields |= {DiagnosticField[name]: value.encode() for name, value in more.items()}
        self.nfields, self.ntuples, self.error_message = len(row), int(bool(row)), text.encode()

    def get_value(self, row: int, column: int) -> bytes:
        return self._row[column].encode()

    def error_field(self, field: DiagnosticField) -> bytes | None:
        return self._fields.get(field)


class Libpq:
    """A PGconn in COPY BOTH mode: hands out `incoming` (bytes are a frame, a Result is the end) and keeps `sent`."""

    backend_pid = 99
    socket = 7

    def __init__(self) -> None:
        self.incoming: list[bytes | Result | Exception] = []
        self.sent: list[Status] = []
        self.clogged = self.ended = self.closed = False
        self.nonblocking = 0
        self.notice_handler: Any = None
        self._result: Result | None = None

    def get_copy_data(self, asynchronous: int) -> tuple[int, memoryview]:
        assert asynchronous, "a blocking read would stop the status updates"
        if not self.incoming:
            return 0, memoryview(b"")
        match self.incoming.pop(0):
            case Result() as result:
                self._result = result
                return -1, memoryview(b"")
            case Exception() as error:
                raise error
            case frame:
                return len(frame), memoryview(frame)

    def get_result(self) -> Result | None:
        return self._result

    def consume_input(self) -> None:
        pass

    def put_copy_data(self, data: bytes) -> None:
        kind, write, flush, apply, _, ping = unpack(">cQQQqB", data)
        assert kind == b"r"
        self.sent.append(Status(write, flush, apply, bool(ping)))

    def put_copy_end(self) -> None:
        self.ended = True
        if not self.incoming:
            self.incoming.append(Result(ExecStatus.COMMAND_OK))

    def flush(self) -> int:
        return int(self.clogged)

    def notice(self, sqlstate: str, text: str, **more: str) -> None:
        self.notice_handler(Result(ExecStatus.NONFATAL_ERROR, sqlstate=sqlstate, text=text, **more))


class Connection:
    patience = 0.0

    def __init__(self, pgconn: Libpq) -> None:
        self.pgconn = pgconn

    def close(self) -> None:
        self.pgconn.closed = True


class Streaming:
    """A stream that began at 100 (by default), and the time it sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.libpq = Libpq()
        self.notices: list[str] = []
        self.answers = {
            "backend": Result(ExecStatus.TUPLES_OK, "4711", "1795000000000001", "10.0.0.1:5432"),
            "pg_is_in_recovery": Result(ExecStatus.TUPLES_OK, "f"),
            "TIMELINE_HISTORY": Result(ExecStatus.TUPLES_OK, "00000003.history", "1\t0/3000\n2\t0/6000\n"),
            "IDENTIFY_SYSTEM": Result(ExecStatus.TUPLES_OK, "7301", "3", "0/0", "db"),
            "SELECT": Result(ExecStatus.TUPLES_OK, "60000"),
            "START_REPLICATION": Result(ExecStatus.COPY_BOTH),
        }
        monkeypatch.setattr("walrelay.postgres.connect.replication", lambda dsn: Connection(self.libpq))
        monkeypatch.setattr("walrelay.postgres.connect.answer", self._answer)
        monkeypatch.setattr("walrelay.source.stream.monotonic", lambda: self.now)
        monkeypatch.setattr("select.poll", lambda: self)
        self.stream = Stream("dsn", "orders", "outbox", Timing(confirm_interval=0.1, receive_timeout=60), self._notice)

    def _answer(self, _: Connection, command: str) -> Result:
        return next(answer for name, answer in self.answers.items() if name in command)

    def register(self, socket: int, events: int) -> None:
        """The interface of select.poll."""

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        """Nothing comes, and the time passes."""
        self.now += milliseconds / 1000
        return []

    def begin(self, start: int = 100) -> "Streaming":
        self.stream.start_stream(LSN(start), [("proto_version", "1")])
        self.libpq.sent.clear()
        return self

    def receive(self, *frames: bytes) -> list[bytes]:
        self.libpq.incoming.extend(frames)
        return self.stream.read(0)

    def confirm(self, lsn: int, *, after: float = 1.0) -> list[Status]:
        """What is sent for a `confirm` so many seconds later."""
        self.now += after
        self.libpq.sent.clear()
        moved = self.stream.confirm(LSN(lsn))
        assert moved == any(status.flush for status in self.libpq.sent)
        return self.libpq.sent

    def _notice(self, text: str) -> None:
        self.notices.append(text)


@pytest.fixture
def streaming(monkeypatch: pytest.MonkeyPatch) -> Streaming:
    return Streaming(monkeypatch)


def wal(position: int) -> bytes:
    return xlogdata(position, position, b"?")


def test_a_stream_knows_which_history_it_reads(streaming: Streaming) -> None:
    assert streaming.stream.identify() == System("7301", 3, LSN.parse("0/6000"))


def test_a_server_whose_history_is_lost_is_read_all_the_same(streaming: Streaming) -> None:
    streaming.answers["TIMELINE_HISTORY"] = Result(ExecStatus.FATAL_ERROR, sqlstate="58P01")
    assert streaming.stream.identify() == System("7301", 3)
    streaming.answers["TIMELINE_HISTORY"] = Result(ExecStatus.FATAL_ERROR, sqlstate="57P01")
    with pytest.raises(Retryable):
        streaming.stream.identify()


def test_a_stream_is_known_by_the_process_that_the_server_names(streaming: Streaming) -> None:
    """A pooler makes up a PID of its own for libpq."""
    assert streaming.libpq.backend_pid != 4711
    assert streaming.stream.backend == Backend(4711, 1795000000000001, "10.0.0.1:5432")
    assert streaming.stream.pid == 4711


def test_a_standby_is_refused_on_the_connection_that_would_stream(streaming: Streaming) -> None:
    streaming.stream.refuse_standby()
    streaming.answers["pg_is_in_recovery"] = Result(ExecStatus.TUPLES_OK, "t")
    with pytest.raises(Retryable, match="the server is a standby"):
        streaming.stream.refuse_standby()


def test_only_a_server_that_was_promoted_is_asked_for_its_history(streaming: Streaming) -> None:
    assert streaming.stream.branches(1) == {}
    assert streaming.stream.branches(3) == {1: LSN.parse("0/3000"), 2: LSN.parse("0/6000")}


def test_the_first_status_update_is_the_position_the_stream_starts_at(streaming: Streaming) -> None:
    """Section D: D22, others began with 0/0 or with a stale position."""
    streaming.stream.start_stream(LSN(100), [])
    assert streaming.libpq.sent == [Status(100, 100, 100, False)]
    assert streaming.stream.start == 100


def test_a_command_that_fails_is_told_by_what_it_means(streaming: Streaming) -> None:
    streaming.answers["START_REPLICATION"] = Result(ExecStatus.FATAL_ERROR, sqlstate="55006", text="slot is active")
    with pytest.raises(Retryable, match="'orders' is in use"):
        streaming.stream.start_stream(LSN(100), [])
    assert streaming.libpq.sent == []


def test_frames_come_in_order_and_none_is_left_behind(streaming: Streaming) -> None:
    frames = [wal(number) for number in range(101, 200)]
    assert streaming.begin().receive(*frames) == frames
    assert streaming.receive() == []


def test_progress_is_told_with_what_was_received(streaming: Streaming) -> None:
    streaming.begin().receive(wal(200), wal(0), wal(300), wal(150))
    assert streaming.confirm(200) == [Status(300, 200, 200, False)]


@pytest.mark.parametrize("lsn", [99, 301, 1 << 60])
def test_a_position_that_cannot_be_right_is_never_sent(streaming: Streaming, lsn: int) -> None:
    """PostgreSQL believes any value (guarantees A5)."""
    streaming.begin().receive(wal(300))
    with pytest.raises(LedgerError, match="about to confirm"):
        streaming.confirm(lsn, after=100)
    assert streaming.libpq.sent == []


def test_a_position_never_goes_back(streaming: Streaming) -> None:
    streaming.begin().receive(wal(300))
    streaming.confirm(300)
    with pytest.raises(LedgerError):
        streaming.confirm(299, after=100)
    assert streaming.libpq.sent == []


def test_progress_is_gathered_for_a_moment(streaming: Streaming) -> None:
    streaming.begin().receive(wal(300))
    assert streaming.confirm(200, after=0.05) == []
    assert streaming.confirm(210, after=0.06) == [Status(300, 210, 210, False)]
    assert streaming.confirm(220, after=0.05) == []


def test_keepalives_that_ask_for_nothing_are_not_answered(streaming: Streaming) -> None:
    """Answering each is a ping-pong of ten thousand a second (guarantees A6)."""
    streaming.begin()
    for position in range(101, 200):
        streaming.receive(keepalive(position))
        assert streaming.confirm(100, after=0.01) == []


def test_a_keepalive_that_asks_is_answered_at_once_and_once_without_confirming_anything(streaming: Streaming) -> None:
    """Section D: D1, D4 and D32. Flush 0/0 says "no news" and lets the server shut down (guarantees A9)."""
    streaming.begin().receive(keepalive(500, reply_requested=True))
    assert streaming.confirm(100, after=0) == [Status(500, 0, 0, False)]
    assert streaming.confirm(100, after=0) == []


def test_the_server_hears_something_long_before_it_would_lose_patience(streaming: Streaming) -> None:
    """Section D: D24. Whether anything was received or not."""
    streaming.begin()
    assert streaming.confirm(100, after=9.9) == []
    assert streaming.confirm(100, after=0.2) == [Status(100, 0, 0, False)]


def test_a_shorter_patience_of_the_server_is_heeded(monkeypatch: pytest.MonkeyPatch, streaming: Streaming) -> None:
    streaming.answers["SELECT"] = Result(ExecStatus.TUPLES_OK, "6000")
    streaming.stream = Stream("dsn", "orders", "outbox", Timing(), streaming.notices.append)
    streaming.begin()
    assert streaming.confirm(100, after=1.1) == [Status(100, 0, 0, False)]


def test_a_status_update_that_could_not_be_written_yet_is_not_doubled_nor_forgotten(streaming: Streaming) -> None:
    streaming.begin().receive(wal(300))
    streaming.libpq.clogged = True
    assert streaming.confirm(300) == []
    streaming.libpq.clogged = False
    assert streaming.confirm(300) == [Status(300, 300, 300, False)]


def test_a_silent_server_is_asked_once_and_then_taken_for_dead(streaming: Streaming) -> None:
    streaming.begin()
    pings = []
    for _ in range(59):
        assert streaming.stream.read(1.0) == []
        pings += [status for status in streaming.confirm(100, after=0) if status.ping]
    assert pings == [Status(100, 0, 0, True)]
    with pytest.raises(Retryable, match="silent for 60 s"):
        streaming.stream.read(1.0)


def test_a_long_wait_ends_when_a_silent_server_has_to_be_asked_and_when_it_counts_as_dead(streaming: Streaming) -> None:
    streaming.begin()
    assert streaming.stream.read(3600) == []
    assert [status.ping for status in streaming.confirm(100, after=0)] == [True]
    with pytest.raises(Retryable, match="silent for 60 s"):
        streaming.stream.read(3600)


def test_a_server_that_answers_is_alive(streaming: Streaming) -> None:
    streaming.begin()
    for _ in range(3):
        streaming.stream.read(50.0)
        assert streaming.receive(keepalive(100)) != []


@pytest.mark.parametrize(
    ("end", "error", "says"),
    [
        (Result(ExecStatus.COMMAND_OK), Retryable, "shutting down"),
        (Result(ExecStatus.FATAL_ERROR, sqlstate="57P01", text="terminating"), Retryable, "terminating"),
        (Result(ExecStatus.FATAL_ERROR, sqlstate="55000", text="exceeded"), Fatal, "cannot be read any more"),
        (psycopg.OperationalError("server closed\nthe connection"), Retryable, "broke: server closed$"),
    ],
)
def test_the_end_of_a_stream_has_several_faces(
    streaming: Streaming, end: Result | Exception, error: type[Exception], says: str
) -> None:
    """A clean shutdown of the server looks like success (guarantees A42)."""
    streaming.begin()
    streaming.libpq.incoming.append(end)
    with pytest.raises(error, match=says):
        streaming.stream.read(0)


def test_a_publication_that_the_server_passes_over_is_fatal(streaming: Streaming) -> None:
    """Since PostgreSQL 18 it is only a warning, and its rows are missing (guarantees A18)."""
    streaming.begin()
    streaming.libpq.notice("55000", 'skipped loading publication "outbox"', SOURCE_FILE="pgoutput.c")
    with pytest.raises(Fatal, match="skips the publication: skipped loading"):
        streaming.receive(wal(200))


@pytest.mark.parametrize("file", ["", "guc.c", "logical.c"])
def test_a_notice_of_the_same_sqlstate_and_another_source_is_reported(streaming: Streaming, file: str) -> None:
    streaming.begin()
    streaming.libpq.notice("55000", "something is not in the state that it should have", SOURCE_FILE=file)
    assert streaming.receive(wal(200)) == [wal(200)]
    assert streaming.notices == ["something is not in the state that it should have"]


TOO_LARGE = Result(
    ExecStatus.FATAL_ERROR,
    sqlstate="53200",
    text="out of memory",
    MESSAGE_DETAIL="Cannot enlarge string buffer containing 1073741822 bytes by 1 more bytes.",
    CONTEXT='slot "orders", output plugin "wal2json", in the commit callback, associated LSN 0/1943AC8',
    SOURCE_FILE="stringinfo.c",
)


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ((("format-version", "1"),), "source.wal2json_format: 2"),
        ((("format-version", "2"),), "1 GB at most"),
        ((("proto_version", "1"),), "source.binary: true"),
        ((("proto_version", "1"), ("binary", "true")), "1 GB at most"),
    ],
)
def test_what_the_server_cannot_decode_is_said_whole_with_its_cure(
    streaming: Streaming, options: tuple[tuple[str, str], ...], cure: str
) -> None:
    streaming.begin()
    streaming.stream.start_stream(LSN(100), options)
    streaming.libpq.incoming.append(TOO_LARGE)
    with pytest.raises(Retryable, match="out of memory") as caught:
        streaming.stream.read(0)
    assert "DETAIL: Cannot enlarge string buffer" in str(caught.value)
    assert "associated LSN 0/1943AC8" in str(caught.value)
    assert cure in caught.value.hint


def test_any_other_notice_is_told(streaming: Streaming) -> None:
    streaming.begin()
    streaming.libpq.notice("01000", "hello")
    assert streaming.receive(wal(200)) == [wal(200)]
    assert streaming.notices == ["hello"]


def test_leaving_confirms_ends_the_stream_and_waits_for_the_server(streaming: Streaming) -> None:
    """Section D: D21, the last acknowledgement was not sent."""
    streaming.begin().receive(wal(300))
    streaming.libpq.incoming += [wal(400), Result(ExecStatus.COMMAND_OK)]
    streaming.stream.leave(LSN(300))
    assert streaming.libpq.sent == [Status(300, 300, 300, False)]
    assert streaming.libpq.ended
    assert streaming.libpq.closed
    assert streaming.libpq.incoming == []


def test_a_connection_that_breaks_while_leaving_is_no_other_error(streaming: Streaming) -> None:
    streaming.begin()
    streaming.libpq.incoming.append(psycopg.OperationalError("gone"))
    with pytest.raises(Retryable, match="gone"):
        streaming.stream.leave(LSN(100))
