"""What the server says besides the stream: heard, and kept by nobody."""

import os
from pathlib import Path

from psycopg.conninfo import make_conninfo

from tests.integration.relaying.harness import Outbox
from walrelay.observe import Happening, Noticed


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_a_flood_of_notices_neither_stops_the_relay_nor_grows_in_it(outbox: Outbox) -> None:
    dsn = make_conninfo(outbox.database.dsn, options="-c client_min_messages=debug5")
    flooded = outbox.under(source={"dsn": dsn})
    heard = 0

    def count(happening: Happening) -> None:
        nonlocal heard
        heard += isinstance(happening, Noticed)

    flooded.watcher.saw = count  # type: ignore[method-assign]
    with flooded.relay() as relay, outbox.database.connect() as connection:
        flooded.write(*range(100), connection=connection)
        flooded.messages(relay)
        before, told_before = resident_bytes(), heard
        flooded.write(*range(100, 2000), connection=connection)
        assert flooded.values(relay) == [b"%d" % number for number in range(2000)]
    assert heard > told_before + 1000
    assert resident_bytes() - before < 16 * 2**20
