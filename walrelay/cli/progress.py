"""What a backfill tells on a terminal: a bar with counts on stderr, and one line for everything else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from walrelay.cli.wording import count
from walrelay.observe import Backfilled, Backfilling, Happening, Noticed, Retrying, Stalled


class BarObserver:
    """Draws a bar while a backfill is under way; without a terminal it says how it ends."""

    def __init__(self) -> None:
        self._bar: Any = None
        self.rows = 0

    def saw(self, happening: Happening) -> None:
        match happening:
            case Backfilling(rows, already):
                self._begin(rows, already)
            case Backfilled(rows):
                self.rows += rows
                self._bar.update(rows)
            case Stalled(seconds, _, why):
                self._say(f"the broker took nothing for {seconds:.0f} s: {why or 'nothing was acknowledged'}")
            case Noticed(text):
                self._say(text)
            case Retrying(cause, _, pause, _):
                self._say(f"{cause}; trying again in {pause:.1f} s")

    def _begin(self, rows: int, already: int) -> None:
        self.close()
        if already:
            click.echo(f"going on: {count(already, 'row was', 'rows were')} published before", err=True)
        click.echo(f"{count(rows, 'row')} to publish", err=True)
        self._bar = click.progressbar(length=rows, label="publishing", show_pos=True, file=sys.stderr)
        self._bar.__enter__()

    def close(self) -> None:
        """Ends the bar's line."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def _say(self, text: str) -> None:
        click.echo(("\n" if self._bar is not None else "") + text, err=True)


@contextmanager
def progress_bar() -> Iterator[BarObserver]:
    """The observer to pass on; its line ends with the context."""
    observer = BarObserver()
    try:
        yield observer
    finally:
        observer.close()
