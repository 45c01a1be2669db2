"""Captures what pgoutput sends, in text and in binary, from every PostgreSQL that can be had here.

    python -m tests.golden.capture_pgoutput

The captures are pgoutput/VERSION/CASE.MODE, where CASE.sql made them; for what is in them see `capturing`.
"""

from pathlib import Path

from tests.golden import capturing
from tests.servers import choose
from tests.servers.choose import Missing
from tests.servers.database import Postgres
from tests.servers.postgres import PostgresServer
from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.wire.commands import pgoutput_options

DIRECTORY = Path(__file__).parent / "pgoutput"
VERSIONS = (15, 16, 18)
MODES = ("text", "binary")
OUTBOXES = {
    "everyday": OutboxLayout(prefix="walrelay"),
    "types": OutboxLayout(
        columns=Columns(id="number", aggregate_type="short", aggregate_id="token", type="flag"), prefix="walrelay"
    ),
    "partitions": OutboxLayout(
        "sales", "events", Columns(**dict.fromkeys(Columns._fields))._replace(id="id", payload="body"), "walrelay"
    ),
}
CAPTURES = [f"{version}/{case}.{mode}" for version in VERSIONS for case in OUTBOXES for mode in MODES]


def read_capture(name: str) -> list[bytes]:
    """The frames of `name`, one of CAPTURES."""
    return capturing.read_capture(DIRECTORY / name)


def decoder_for(name: str) -> PgoutputDecoder:
    """A new decoder with the settings that suit the capture."""
    case, _, mode = name.partition("/")[2].partition(".")
    return PgoutputDecoder(OUTBOXES[case]._replace(skip_non_transactional=True), binary=mode == "binary")


def capture(server: Postgres, version: int) -> None:
    """Write all captures of one server."""
    directory = DIRECTORY / str(version)
    directory.mkdir(exist_ok=True)
    for case in OUTBOXES:
        plugins = {
            directory / f"{case}.{mode}": ("pgoutput", pgoutput_options("outbox", binary=mode == "binary"))
            for mode in MODES
        }
        capturing.capture(server, DIRECTORY / f"{case}.sql", plugins)


if __name__ == "__main__":
    for version in VERSIONS:
        try:
            programs = choose.postgres_programs(choose.this_machine(), version)
        except Missing as missing:
            print(missing)  # noqa: T201
            continue
        with PostgresServer(programs) as server:
            capture(server, version)
