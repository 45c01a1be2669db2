"""Settings to where the relay keeps its own position: for the relay, a recovery, and a slot that was just made."""

from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from typing import Literal

from walrelay.compose.reading import dsn
from walrelay.config import Settings
from walrelay.errors import Fatal, Retryable
from walrelay.model import Finding, RelayPosition, System
from walrelay.operations.recovery.floors import KeptPosition
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.history import server_history
from walrelay.publish import load_exactly_once
from walrelay.source.contract import Positions
from walrelay.source.positions import FilePositions, TablePositions

_PATIENCE = 10.0  # seconds


def positions(settings: Settings, catalog: Catalog, system: System, reader: int | None = None) -> Positions | None:
    """The place that the settings name; None where the slot's own position is all there is. `reader`: the walsender of
    the relay that keeps it there, which nobody else may do while it does.
    """
    sink, slot = settings.sink, settings.source.slot
    match place(settings):
        case "file":
            return FilePositions(Path(settings.position.path), slot)
        case "table":
            return TablePositions(catalog, slot, reader)
        case "topic":
            return load_exactly_once(sink.kind).open_positions(sink.settings, system, slot)
    return None


def place(settings: Settings) -> Literal["slot", "file", "table", "topic"]:
    """Which: a relay that publishes exactly once keeps its position in the topic."""
    return "topic" if settings.delivery == "exactly_once" else settings.position.keep


def position_findings(settings: Settings) -> Iterable[Finding]:
    """What the doctor finds where the relay keeps its own position; nothing to find where that is no topic."""
    if place(settings) != "topic":
        return ()
    return load_exactly_once(settings.sink.kind).examine_positions(settings.sink.settings)


def kept_positions(settings: Settings) -> list[KeptPosition]:
    """The places where the settings' relay keeps its own position, the best first."""
    where = place(settings)
    return [] if where == "slot" else [KeptPosition(f"the relay's own position (the {where})", lambda: _last(settings))]


def begin_at(settings: Settings, catalog: Catalog, *, xmin: int = 0) -> None:
    """From now on the relay's own position is where the slot stands, which was made just now: what the place has is of
    an earlier slot, and would be taken for that of somebody who moved this one. `xmin`: as in Position.
    """
    system, slot = catalog.system(), catalog.slot(settings.source.slot)
    kept = positions(settings, catalog, system)
    if kept is None or slot is None or slot.confirmed_flush_lsn is None or not _is_ours(kept, system):
        return
    here = server_history(dsn(settings), catalog).system  # which knows where its timeline began
    wanted = RelayPosition(here, slot.name, slot.confirmed_flush_lsn, xmin=xmin)
    deadline = monotonic() + _PATIENCE
    while kept.keep(wanted) < wanted.lsn:
        if monotonic() > deadline:
            raise Retryable(f"the relay's own position was not taken by the {place(settings)} in {_PATIENCE:g} s")


def _is_ours(kept: Positions, system: System) -> bool:
    """What is of another server, or cannot be read, is somebody's loss; the relay refuses it, and says what to do."""
    try:
        before = kept.last()
    except Fatal:
        return False
    return before is None or before.system.identifier == system.identifier


def _last(settings: Settings) -> RelayPosition | None:
    """A relay that died in the middle of a commit would hide it, and is fenced off; one that works has the slot."""
    with Catalog(dsn(settings)) as catalog:
        kept = positions(settings, catalog, catalog.system())
        return kept.last() if kept else None
