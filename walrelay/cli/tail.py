"""`walrelay tail`: the decoded inserts on stdout, with the slot left where it is."""

import math
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from threading import Event
from time import monotonic

import click

from walrelay import compose
from walrelay.cli.options import config_option
from walrelay.cli.output import Output, ReaderGone
from walrelay.cli.signals import signalled
from walrelay.config import Settings, load
from walrelay.decode.lines import LineReader, TailLine
from walrelay.errors import Fatal
from walrelay.lsn import ZERO
from walrelay.model import Skipped
from walrelay.postgres.catalog import Catalog
from walrelay.source.peek import Peek, temporary_stream
from walrelay.source.slot_source import usable_slot
from walrelay.source.stream import Stream, Timing
from walrelay.wire.commands import Options

_FEW = 1000  # records: what is printed of a backlog unless more is asked for
_ENOUGH = 1 << 16  # bytes that are worth a write
_PATIENCE = 0.25  # seconds in which Ctrl-C, a keepalive or a reader that left is noticed


@click.command()
@config_option
@click.option("-f", "--follow", is_flag=True, help="Print what is committed from now on, until Ctrl-C.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), help=f"Records; 0 is all.  [default: {_FEW}; with --follow all]"
)
@click.option(
    "--format", "form", type=click.Choice(["walrelay", "wal2json"]), default="walrelay", show_default=True,
    help="What a line looks like.",
)  # fmt: skip
def tail(config_path: Path, follow: bool, limit: int | None, form: str) -> None:
    """Print what waits in the slot, and leave the slot where it is.

    Without --follow the slot is peeked into, which the server allows only while no relay reads it. With --follow a
    temporary slot beside it shows what is committed from now on; it holds no WAL back and ends with the command.

    The format walrelay is one JSON object a record: position, committed_at and the fields of the outbox as they are
    in the row, before routing. A payload (or headers) that is a JSON object or array stands there as it is, digit for
    digit; other text is a string; what is not UTF-8 is {"base64": ...}.

    The format wal2json is what wal2json prints for the same inserts with format-version 2 and its other options at
    their defaults, byte for byte and with either output plugin: a line B, I for each row or M for each logical message
    that is a record, and C. A transaction without a record prints nothing. What pgoutput does not send cannot be
    printed: generated columns, the names of partitions, rows outside of the publication's row filter; then a note on
    stderr says so. Nor is it known which columns were generated earlier, or what a domain, or a type that was renamed
    since the row before, was called at each row.

    \b
    Example:
      walrelay tail --limit 1
      walrelay tail --follow | jq .payload
      walrelay tail --limit 0 --format wal2json > waiting.jsonl
    """
    settings = load(config_path)
    stop = signalled() if follow else None
    given, limit = limit, _FEW if limit is None and not follow else limit
    with Catalog(compose.dsn(settings)) as catalog:
        compose.refuse(settings, catalog, "follow" if follow else "tail")
        options, lines = compose.lines(settings, catalog, form)
        for remark in compose.remarks(settings, catalog, form):
            _note(remark)
        printer = _Printer(lines, Output(sys.stdout.fileno()), limit or math.inf)
        try:
            if stop is not None:
                with closing(_temporary(settings, catalog, options)) as stream:
                    _follow(stream, printer, stop, settings.source.pause_limit)
            else:
                _refuse_unreadable(settings, catalog)
                with closing(_peek(settings, catalog, options).frames(limit or None)) as frames:
                    _print(frames, printer)
                if printer.done and given is None:
                    _note(f"these were the first {limit} records; --limit 0 prints all that wait")
        except ReaderGone:
            return


class _Printer:
    """Frames to lines, until the limit; `position` is the end of the last transaction that was taken."""

    def __init__(self, lines: LineReader, output: Output, limit: float) -> None:
        self._lines, self.output, self._left = lines, output, limit
        self.position = ZERO
        self.done = False

    def take(self, frame: bytes) -> None:
        """Stops before the first record too many, or where its transaction would end: C comes after the last I."""
        for item in self._lines.read(frame):
            if isinstance(item, TailLine):
                if item.record and not self._left:
                    self.done = True
                    return
                self.output.add(item.text)
                self._left -= item.record
            elif isinstance(item, Skipped):
                _note(f"passed over at {item.lsn}, as the settings say: {item.why}")
            else:
                self.position = max(self.position, item[0])
                self.done = not self._left


def _print(frames: Iterable[bytes], printer: _Printer) -> None:
    """All of the frames, or up to the limit; what was decoded before an error is printed before it."""
    try:
        for frame in frames:
            printer.take(frame)
            if printer.done:
                return
            if len(printer.output) > _ENOUGH:
                printer.output.drain(None)
    finally:
        printer.output.drain(None)


def _follow(stream: Stream, printer: _Printer, stop: Event, pause_limit: float) -> None:
    """Until the signal or the limit. A reader that pauses pauses the stream, which is kept alive; nothing piles up but
    on the server, so after so many seconds it is Fatal.
    """
    printed, waiting, moved = stream.start, 0, monotonic()
    try:
        while not (stop.is_set() or printer.done):
            if printer.output.drain(_PATIENCE):
                printed = max(printed, printer.position)
            if not printer.output or len(printer.output) < waiting:
                moved = monotonic()
            waiting = len(printer.output)
            if monotonic() - moved > pause_limit:
                raise _paused(pause_limit)
            stream.confirm(printed)
            for frame in () if printer.output else stream.read(_PATIENCE):
                printer.take(frame)
                if printer.done:
                    break
    finally:
        printer.output.drain(_PATIENCE)


def _paused(seconds: float) -> Fatal:
    return Fatal(
        f"whoever reads standard output has read nothing for {seconds:g} s: the temporary slot is let go, because it"
        " holds back WAL, and may hold up checkpoints",
        hint="Run it again for what is committed from then on; `walrelay tail --follow > events` leaves the reading for"
        " later, and source.pause_limit is how long a pause may be.",
    )


def _refuse_unreadable(settings: Settings, catalog: Catalog) -> None:
    name = settings.source.slot
    usable_slot(catalog.slot(name), name, settings.source.plugin, catalog.database)


def _peek(settings: Settings, catalog: Catalog, options: Options) -> Peek:
    slot, publication = settings.source.slot, compose.publication(settings)
    return Peek(compose.dsn(settings), catalog, slot, publication, options, _note)


def _temporary(settings: Settings, catalog: Catalog, options: Options) -> Stream:
    timing = Timing(settings.source.confirm_interval, settings.source.receive_timeout)
    plugin, publication = settings.source.plugin, compose.publication(settings)
    return temporary_stream(compose.dsn(settings), plugin, publication, options, timing, catalog, _note)


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
