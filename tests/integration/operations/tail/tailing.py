"""An outbox whose slot waits to be looked into, the installed `walrelay tail`, and wal2json itself for comparison."""

import fcntl
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import psycopg

from tests.servers.choose import Missing, give_up
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.identifiers import identifier
from walrelay.postgres import session as of_walrelay
from walrelay.wire import wal2json_lines

PATIENCE = 20

COLUMNS = """
    id text, aggregate_type text, aggregate_id text, type text, payload jsonb, headers jsonb, topic text,
    tenant_id text, created_at timestamptz
"""


class Ended(NamedTuple):
    """What came of a `walrelay tail` that is over."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    @property
    def ids(self) -> list[str]:
        return [record["id"] for record in self.records]


class Tailed:
    """A table, a slot for the plugin under test, and where they are compared one for wal2json itself."""

    def __init__(
        self,
        database: Database,
        directory: Path,
        plugin: str,
        *,
        compared: bool = False,
        schema: str = "public",
        table: str = "outbox",
        columns: str | None = COLUMNS,
        options: str = "",
        outbox: dict[str, Any] | None = None,
        wal2json_format: int = 2,
        pause_limit: float = 30,
    ) -> None:
        self.database, self.schema, self.name = database, schema, table
        self.table = f"{identifier(schema)}.{identifier(table)}"
        self.slot, self.reference = f"{database.name}_relay", f"{database.name}_plugin"
        if columns is not None:
            database.execute(f"CREATE TABLE {self.table} ({columns}) {options}")
        database.execute("CREATE TABLE other (n int)")
        database.execute(
            f"CREATE PUBLICATION walrelay FOR TABLE {self.table}, other"
            " WITH (publish = 'insert', publish_via_partition_root)"
        )
        slots = {self.slot: plugin, **({self.reference: "wal2json"} if compared else {})}
        if "wal2json" in slots.values() and not database.server.has_wal2json:
            give_up(Missing("this PostgreSQL has no wal2json"))
        for slot, made_for in slots.items():
            database.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [slot, made_for])
        source = {"dsn": database.dsn, "slot": self.slot, "plugin": plugin, "wal2json_format": wal2json_format}
        source["pause_limit"] = pause_limit
        settings = {
            "source": source,
            "outbox": {"table": self.table, "messages": {"prefix": "walrelay"}, **(outbox or {})},
            "sink": {"kind": "stdout"},
            **({"route": {"topic": "events"}} if "aggregate_type" in (outbox or {}).get("columns", {}) else {}),
        }
        self._file = directory / "walrelay.yaml"
        self._file.write_text(json.dumps(settings))

    def write(self, *ids: object, connection: psycopg.Connection[Any] | None = None) -> None:
        """A row for each id: one transaction a row, or the caller's."""
        statement = f"INSERT INTO {self.table} (id, aggregate_type, payload) VALUES (%s, 'order', '{{}}')"
        for each in ids:
            if connection is not None:
                connection.execute(statement.encode(), [each])
            else:
                self.database.execute(statement, [each])

    def start(self, *options: str, stdout: int | IO[bytes] = subprocess.PIPE) -> "subprocess.Popen[bytes]":
        code = "from walrelay.cli import main; main()"
        command = [sys.executable, "-c", code, "tail", "-c", str(self._file), *options]
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE)
        if process.stdout is not None:  # it is read at the end, and must not be waited for before
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 2**20)
        return process

    def tail(self, *options: str) -> Ended:
        """Runs the command to its end."""
        return ended(self.start(*options))

    def temporary_slot(self, expression: str = "slot_name") -> Any:
        """An expression over the slot that --follow made and streams from; None as long as there is none."""
        rows = self.database.server.execute(
            f"SELECT {expression} FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = active_pid"
            " WHERE temporary AND database = %s AND r.state = 'streaming' AND confirmed_flush_lsn IS NOT NULL",
            [self.database.name],
        )
        return rows[0][0] if rows else None

    def following(self, *options: str) -> "Following":
        return Following(self, options)

    def position(self) -> str:
        """What the slot has confirmed. (Its restart_lsn the server may move by itself, up to this position.)"""
        query = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
        ((lsn,),) = self.database.execute(query, [self.slot])
        return str(lsn)

    def printed_by_the_plugin(self) -> list[bytes]:
        """wal2json's own lines, by default, of the transactions with outbox records; nothing else in them."""
        with self.database.connect() as session:
            session.execute(of_walrelay.session(session.info.server_version).encode())
            rows = session.execute(
                "SELECT data FROM pg_logical_slot_peek_changes(%s, NULL, NULL, 'format-version', '2')", [self.reference]
            ).fetchall()
        insert = wal2json_lines.insert(self.schema, self.name, []).removesuffix(b"]}")
        kept: list[bytes] = []
        for line in (data.encode() for (data,) in rows):
            if line == wal2json_lines.COMMIT and kept[-1] == wal2json_lines.BEGIN:
                kept.pop()
            elif line.startswith((insert, b'{"action":"B"', b'{"action":"C"')) or b'"prefix":"walrelay",' in line:
                kept.append(line)
        return kept


class Following:
    """`walrelay tail --follow` from its first streaming on; it does not outlive the block."""

    def __init__(self, tailed: Tailed, options: Sequence[str]) -> None:
        self._tailed, self._options = tailed, options

    def __enter__(self) -> "Following":
        self._process = self._tailed.start("--follow", *self._options)
        try:
            wait_until(self._streams, PATIENCE, "the temporary slot to stream")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            ended(self._process)

    def interrupted(self, number: signal.Signals = signal.SIGINT) -> Ended:
        """What came of it once everything committed by now is printed and the signal sent."""
        self.wait_until_printed()
        self._process.send_signal(number)
        return ended(self._process)

    def finished(self) -> Ended:
        """What came of it when it ended by itself."""
        return ended(self._process)

    def wait_until_printed(self) -> None:
        """Returns when everything committed by now is printed, which is when it is confirmed."""
        ((lsn,),) = self._tailed.database.server.execute("SELECT pg_current_wal_insert_lsn()")
        confirmed = f"confirmed_flush_lsn >= '{lsn}'"
        wait_until(lambda: self._tailed.temporary_slot(confirmed), PATIENCE, "everything to be printed")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def _streams(self) -> Any:
        if not self.running:
            raise RuntimeError(f"walrelay tail ended: {ended(self._process)}")
        return self._tailed.temporary_slot()


def ended(process: "subprocess.Popen[bytes]") -> Ended:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ended(process.returncode, out or b"", err.decode())
