"""Running a script on a server and keeping what an output plugin sent for it.

A script is a .sql file: each paragraph is one list of statements, so one transaction unless it says otherwise. At the
line `-- capture` the slots are made, which so read the very same WAL.

A line of a capture is a frame: its header in hexadecimal, a blank and the plugin's message with Python's escapes.
"""

import select
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import ExecStatus

from tests.servers.database import Database, Postgres
from walrelay.lsn import ZERO
from walrelay.wire.commands import Options, start_replication
from walrelay.wire.frames import BODY

_SESSION = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c extra_float_digits=1"
_LAST = b"the capture ends here"

Plugin = tuple[str, Options]
"""An output plugin's name and the options it is started with."""


def read_capture(path: Path) -> list[bytes]:
    """The frames in the file."""
    return [_frame(line) for line in path.read_text("ascii").splitlines()]


def write_capture(path: Path, frames: Iterator[bytes]) -> None:
    """Keep the frames in the file."""
    path.write_text("".join(_line(frame) + "\n" for frame in frames), "ascii")


def capture(server: Postgres, script: Path, plugins: Mapping[Path, Plugin]) -> None:
    """Run the script in a fresh database and write what each plugin sent into its file."""
    prepare, _, transactions = script.read_text("utf-8").partition("-- capture\n")
    database = server.create_database()
    slots = {path: f"{database.name}_{number}" for number, path in enumerate(plugins)}
    try:
        _run(database, prepare)
        for path, (plugin, _) in plugins.items():
            database.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [slots[path], plugin])
        _run(database, transactions)
        database.execute("SELECT pg_logical_emit_message(false, 'capture', %s)", [_LAST.decode()])
        for path, (_, options) in plugins.items():
            write_capture(path, _stream(database, slots[path], options))
    finally:
        database.drop()


def _frame(line: str) -> bytes:
    header, _, body = line.partition(" ")
    return bytes.fromhex(header) + body.encode("ascii").decode("unicode_escape").encode("latin-1")


def _line(frame: bytes) -> str:
    escaped = frame[BODY:].decode("latin-1").encode("unicode_escape").decode("ascii")
    return f"{frame[:BODY].hex()} {escaped}" if escaped else frame.hex()


def _run(database: Database, script: str) -> None:
    with database.connect() as connection:
        for paragraph in script.split("\n\n"):
            if paragraph.strip():
                connection.execute(paragraph.encode())


def _stream(database: Database, slot: str, options: Options) -> Iterator[bytes]:
    conninfo = make_conninfo(database.dsn, replication="database", options=_SESSION, client_encoding="utf8")
    with closing(psycopg.connect(conninfo, autocommit=True)) as connection:
        pgconn = connection.pgconn
        result = pgconn.exec_(start_replication(slot, ZERO, options).encode())
        assert result.status == ExecStatus.COPY_BOTH, result.error_message
        while True:
            length, data = pgconn.get_copy_data(1)
            if length == 0:
                select.select([pgconn.socket], [], [], 1)
                pgconn.consume_input()
                continue
            assert length > 0, pgconn.get_result()
            if _LAST in (frame := bytes(data)):
                return
            yield frame
