"""The file sink's entry point."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.file.line_file import LineFile
from walrelay.sinks.file.settings import FileSettings
from walrelay.sinks.file.sink import FileSink


def _open(settings: FileSettings, memory: Any) -> Sink:
    return FileSink(partial(LineFile, Path(settings.path)))


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


plugin = SinkPlugin(
    FileSettings,
    open=_open,
    examine=_examine,
    writes_to=lambda settings: f"the file {settings.real_path!r}",
    partitions=True,
    traits=SinkTraits(
        durable="on disk (fdatasync)",
        order="of commits",
        repeats="recognised by the header id",
        headers="any bytes, null, repeated names",
        size="any",
    ),
)
