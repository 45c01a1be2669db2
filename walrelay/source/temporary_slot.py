"""A temporary slot: what is committed from now on, in nobody's way. It ends with its connection."""

from collections.abc import Callable
from uuid import uuid4

from walrelay.lsn import LSN
from walrelay.postgres.catalog import Catalog
from walrelay.source.stream import Stream, Timing
from walrelay.wire.commands import Options, create_temporary_slot

_PATIENCE = 10  # seconds; a new slot begins behind each transaction that was writing when it was asked for


def temporary(
    dsn: str,
    plugin: str,
    publication: str | None,
    options: Options,
    timing: Timing,
    catalog: Catalog,
    notice: Callable[[str], None],
) -> Stream:
    """The stream of a new temporary slot, begun. Whoever reads it confirms, or it holds WAL back like any other."""
    slot = f"walrelay_tail_{uuid4().hex[:12]}"
    stream = Stream(dsn, slot, publication or "", timing, notice)
    try:
        catalog.refuse_another_server(stream.backend)
        stream.command(f"SET lock_timeout = '{_PATIENCE}s'")
        _, start, *_ = stream.command(create_temporary_slot(slot, plugin))
        stream.command("SET lock_timeout = 0")
        stream.begin(LSN.parse(start), options)
        catalog.refuse_synchronous(stream.pid)
    except BaseException:
        stream.close()
        raise
    return stream
