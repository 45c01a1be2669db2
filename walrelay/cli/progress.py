"""Counts in words, and progress on stderr: bars on a terminal, and a line for each notice."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

import click

from walrelay.observe import Backfilled, Backfilling, DeadLettered, Happening, Noticed, Retrying, Stalled


def count(number: int, one: str, several: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {one if number == 1 else several or one + 's'}"


T = TypeVar("T")


def progress(items: Iterable[T], length: int, label: str) -> Iterator[T]:
    """Yields the items, with a bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    with click.progressbar(items, length=length, label=label, file=sys.stderr) as bar:
        yield from bar


class Bars:
    """One bar after the other; without a terminal only their labels. The last line ends with the context."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._label = ""

    def begin(self, label: str, length: int, *, show_pos: bool = False) -> None:
        self.end()
        self._label = label
        self._bar = click.progressbar(length=length, label=label, show_pos=show_pos, file=sys.stderr)
        self._bar.__enter__()

    def at(self, label: str, done: float, whole: float) -> None:
        """A new label begins a new bar."""
        if label != self._label:
            self.begin(label, max(1, int(whole)))
        self._bar.update(int(done) - self._bar.pos)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class BarObserver(Bars):
    """Shows what happens while rows of the table are published."""

    rows = blocked = 0

    def saw(self, happening: Happening) -> None:
        match happening:
            case Backfilling(rows, already):
                self.end()
                if already:
                    click.echo(f"continuing: {count(already, 'row was', 'rows were')} already published", err=True)
                click.echo(f"{count(rows, 'row')} to publish", err=True)
                self.begin("publishing", rows, show_pos=True)
            case Backfilled(rows):
                self.rows += rows
                self._bar.update(rows)
            case DeadLettered():
                self.blocked += 1
            case Stalled(seconds, _, why, _):
                self._say(f"the broker acknowledged nothing for {seconds:.0f} s: {why or 'nothing was acknowledged'}")
            case Noticed(text):
                self._say(text)
            case Retrying(cause, _, pause) if not happening.again:
                self._say(f"{cause}; trying again in {pause:.1f} s")

    def _say(self, text: str) -> None:
        click.echo(("\n" if self._bar is not None else "") + text, err=True)
