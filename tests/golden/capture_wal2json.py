"""Captures what pgoutput and wal2json send for the same transactions.

    python -m tests.golden.capture_wal2json DSN NAME

NAME is the directory of the captures, such as 15-2.5 for PostgreSQL 15 with wal2json 2.5. Every *.sql is run in a
fresh database, each paragraph as one list of statements, so as one transaction unless it says otherwise. At the line
`-- capture` three slots are made, one for each output plugin and format version. They decode the same WAL, so their
LSNs agree.

A line of a capture is a frame: its header in hexadecimal, a blank and the plugin's message with Python's escapes.
"""

import select
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import ExecStatus

from tests.servers.database import Database, Postgres
from walrelay.decode.contract import Outbox
from walrelay.lsn import ZERO
from walrelay.wire.commands import Options, pgoutput_options, start_replication
from walrelay.wire.frames import BODY
from walrelay.wire.wal2json import options

CAPTURES = Path(__file__).parent / "wal2json"
OUTBOXES = {"plain": Outbox(), "odd": Outbox("Odd, Schema.", "out.box\\ \"*\" 'x'")}
SERVERS = ("15-2.5", "18-2.6")
FORMATS = {"pgoutput": "pgoutput", "format1": "wal2json", "format2": "wal2json"}

_SESSION = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c extra_float_digits=1"
_LAST = b"the capture ends here"


def read_capture(server: str, case: str, name: str) -> list[bytes]:
    """The frames that `server` (of SERVERS) sent for `case` (of OUTBOXES) in the format `name` (of FORMATS)."""
    return [_frame(line) for line in (CAPTURES / server / f"{case}.{name}").read_text("ascii").splitlines()]


def _frame(line: str) -> bytes:
    header, _, body = line.partition(" ")
    return bytes.fromhex(header) + body.encode("ascii").decode("unicode_escape").encode("latin-1")


def _line(frame: bytes) -> str:
    escaped = frame[BODY:].decode("latin-1").encode("unicode_escape").decode("ascii")
    return f"{frame[:BODY].hex()} {escaped}" if escaped else frame.hex()


def capture(server: Postgres, case: str, directory: Path) -> None:
    """Write the three captures of the .sql file `case`."""
    prepare, _, transactions = (CAPTURES / f"{case}.sql").read_text("utf-8").partition("-- capture\n")
    database = server.create_database()
    try:
        _run(database, prepare)
        for name, plugin in FORMATS.items():
            database.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [f"{database.name}_{name}", plugin])
        _run(database, transactions)
        database.execute("SELECT pg_logical_emit_message(false, 'capture', %s)", [_LAST.decode()])
        for name in FORMATS:
            frames = _stream(database, f"{database.name}_{name}", _options(name, OUTBOXES[case]))
            (directory / f"{case}.{name}").write_text("".join(_line(frame) + "\n" for frame in frames), "ascii")
    finally:
        database.drop()


def _options(name: str, outbox: Outbox) -> Options:
    if name == "pgoutput":
        return pgoutput_options("outbox", binary=False)
    return options(int(name[-1]), outbox.schema, outbox.table)


def _run(database: Database, script: str) -> None:
    with database.connect() as connection:
        for paragraph in script.split("\n\n"):
            if paragraph.strip():
                connection.execute(paragraph.encode())


def _stream(database: Database, slot: str, plugin_options: Options) -> Iterator[bytes]:
    conninfo = make_conninfo(database.dsn, replication="database", options=_SESSION, client_encoding="utf8")
    with closing(psycopg.connect(conninfo, autocommit=True)) as connection:
        pgconn = connection.pgconn
        result = pgconn.exec_(start_replication(slot, ZERO, plugin_options).encode())
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


if __name__ == "__main__":
    _, dsn, name = sys.argv
    (CAPTURES / name).mkdir(exist_ok=True)
    for case in OUTBOXES:
        capture(Postgres(dsn), case, CAPTURES / name)
