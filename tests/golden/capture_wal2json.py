"""Captures what pgoutput and wal2json send for the same transactions.

    python -m tests.golden.capture_wal2json DSN NAME

NAME is the directory of the captures, such as 15-2.5 for PostgreSQL 15 with wal2json 2.5. Of the three slots, one for
each output plugin and format version, all decode the same WAL, so their LSNs agree.
"""

import sys
from pathlib import Path

from tests.golden import capturing
from tests.servers.database import Postgres
from walrelay.decode.contract import OutboxLayout
from walrelay.wire.commands import Options, pgoutput_options
from walrelay.wire.wal2json import options

CAPTURES = Path(__file__).parent / "wal2json"
OUTBOXES = {
    "plain": OutboxLayout(prefix="walrelay"),
    "odd": OutboxLayout("Odd, Schema.", "out.box\\ \"*\" 'x'", prefix="walrelay"),
}
SERVERS = ("15-2.5", "18-2.6")
FORMATS = {"pgoutput": "pgoutput", "format1": "wal2json", "format2": "wal2json"}


def read_capture(server: str, case: str, name: str) -> list[bytes]:
    """The frames that `server` (of SERVERS) sent for `case` (of OUTBOXES) in the format `name` (of FORMATS)."""
    return capturing.read_capture(CAPTURES / server / f"{case}.{name}")


def capture(server: Postgres, case: str, directory: Path) -> None:
    """Write the three captures of the .sql file `case`."""
    plugins = {
        directory / f"{case}.{name}": (plugin, _options(name, OUTBOXES[case])) for name, plugin in FORMATS.items()
    }
    capturing.capture(server, CAPTURES / f"{case}.sql", plugins)


def _options(name: str, outbox: OutboxLayout) -> Options:
    if name == "pgoutput":
        return pgoutput_options("outbox", binary=False)
    return options(int(name[-1]), outbox.schema, outbox.table)


if __name__ == "__main__":
    _, dsn, name = sys.argv
    (CAPTURES / name).mkdir(exist_ok=True)
    for case in OUTBOXES:
        capture(Postgres(dsn), case, CAPTURES / name)
