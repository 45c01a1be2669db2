"""The file sink's entry point."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from walrelay.model import Counting, Finding, System
from walrelay.publish.contract import ExactlyOnce, ExactlyOnceSink, PositionKeeper, Sink, SinkPlugin, SinkTraits
from walrelay.sinks.file.groups import FileGroups, FilePositionRecord
from walrelay.sinks.file.line_file import LineFile, Rotation
from walrelay.sinks.file.settings import FileSettings
from walrelay.sinks.file.sink import FileSink
from walrelay.sinks.groups import GroupedSink, GroupSize

_GROUP = GroupSize(messages=10_000, bytes=4 * 2**20)


def _line_file(settings: FileSettings) -> partial[LineFile]:
    return partial(LineFile, Path(settings.path), Rotation(settings.rotate_bytes, settings.rotate_interval))


def _open(settings: FileSettings, memory: Any) -> Sink:
    return FileSink(_line_file(settings))


def _open_exactly_once(
    settings: FileSettings, memory: Any, system: System, slot: str, counting: Counting | None = None
) -> ExactlyOnceSink:
    return GroupedSink(FileGroups(_line_file(settings), slot), _GROUP, system, slot, counting)


def _open_positions(settings: FileSettings, system: System, slot: str) -> PositionKeeper:
    return FilePositionRecord(_line_file(settings), slot)


def _examine(settings: FileSettings, topics: Sequence[str]) -> Iterator[Finding]:
    path = Path(settings.path)
    place = path if path.exists() else path.parent
    if path.exists() and not path.is_file():
        yield Finding("sink", "problem", f"{path} is no file", "Correct sink.path.")
    elif not place.exists():
        yield Finding("sink", "problem", f"there is no directory {path.parent}", f"mkdir -p {path.parent}")
    elif not (os.access(place, os.W_OK) and os.access(path.parent, os.W_OK)):
        who = f"the user {os.getuid()}"
        yield Finding("sink", "problem", f"{who} may not write to {place}", f"chown {os.getuid()} {place}")
    else:
        yield Finding("sink", "ok", f"events are written to {path}")


def _examine_positions(settings: FileSettings) -> Iterator[Finding]:
    yield Finding("sink", "ok", f"the relay's position is in {settings.path}.position")


plugin = SinkPlugin(
    FileSettings,
    open=_open,
    examine=_examine,
    exactly_once=ExactlyOnce(_open_exactly_once, _open_positions, _examine_positions, serves_at_least_once=False),
    partitions=True,
    traits=SinkTraits(
        durable="on disk (fdatasync)",
        order="of commits",
        repeats="none with exactly_once; recognised by the header id",
        headers="any bytes, null, repeated names",
        size="any",
    ),
)
