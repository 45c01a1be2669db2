"""What a person sees while it is measured: a display on a terminal, a line for each segment elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from walrelay.lab.bench.latency.account import Account, Measured, percentile
from walrelay.lab.bench.report.wording import duration

_INTERVAL = 0.25  # seconds between two drawings
_RECENT = 200  # events over which the running p50 goes


class Screen:
    """Where all of it is shown; nothing goes to any other place."""

    def __init__(self, *, on_stderr: bool = False) -> None:
        self.console = Console(stderr=on_stderr)
        self._mark = "✓" if self.console.encoding.startswith("utf") else "*"
        self._progress: Progress | None = None

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    def note(self, text: str) -> None:
        self.say(f" [yellow]![/] {text}")

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Shown as going on, and then as there."""
        started = time.monotonic()
        with self.console.status(what):
            yield
        self.say(f" [green]{self._mark}[/] {what}  [dim]{time.monotonic() - started:.1f} s[/]")

    def progress(self, names: Sequence[str], rounds: int) -> "Progress":
        """Shows the segments while it is entered."""
        kind = LiveProgress if self.console.is_terminal else Progress
        return kind(self.console, names, rounds)


class Progress:
    """A line for each segment when it is over."""

    def __init__(self, console: Console, names: Sequence[str], rounds: int) -> None:
        self._console, self._rounds = console, rounds
        self._latencies: dict[str, list[float]] = {name: [] for name in names}
        self._widest = max(len(name) for name in names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, number: int, name: str) -> None:
        """A segment of round `number`, counted from 1."""
        self._round, self._name = number, name
        self._account: Account | None = None

    def follow(self, account: Account) -> None:
        """The segment's account."""
        self._account = account

    def idle(self, seconds: float) -> None:
        """Nothing is written for so long."""

    def refresh(self) -> None:
        """Something may have changed."""

    def end(self, measured: Measured) -> None:
        self._latencies[self._name] += measured.account.latencies_ms
        shown = (
            f"{self._name:<{self._widest}}  {_events(measured.account)}  {_percentiles(measured.account.latencies_ms)}"
        )
        self._console.print(f" round {self._round}/{self._rounds}  {shown}", highlight=False)


class LiveProgress(Progress):
    """Where it is, and how each strategy stands over all rounds so far; drawn four times a second at most."""

    def __enter__(self) -> Self:
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.__enter__()
        self._drawn = 0.0
        self._done = 0
        self._standing = dict.fromkeys(self._latencies, "")
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def begin(self, number: int, name: str) -> None:
        super().begin(number, name)
        self._until: float | None = None
        self._draw()

    def idle(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def refresh(self) -> None:
        if time.monotonic() - self._drawn > _INTERVAL:
            self._draw()

    def end(self, measured: Measured) -> None:
        self._latencies[self._name] += measured.account.latencies_ms
        self._standing[self._name] = _percentiles(self._latencies[self._name])
        self._done += 1

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        bar = Table.grid(padding=(0, 2))
        total = self._rounds * len(self._latencies)
        bar.add_row(
            f" round {self._round}/{self._rounds}",
            ProgressBar(total=total, completed=self._done, width=30),
            f"[bold]{self._name}[/]",
            self._doing(),
        )
        self._live.update(Group("", bar, "", self._standings()), refresh=True)

    def _doing(self) -> str:
        account = self._account
        if self._until is not None:
            return f"idle for another {max(0.0, self._until - time.monotonic()):.0f} s"
        if account is None or not account.committed:
            return "warming up"
        latencies = sorted(account.latencies_ms[-_RECENT:])
        recent = f"  [cyan]p50 {duration(percentile(latencies, 50))}[/]" if latencies else ""
        return f"{_events(account)}{recent}"

    def _standings(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, standing in self._standing.items():
            style = "bold" if name == self._name else "dim"
            table.add_row(Text(f" {name}", style), Text(standing, style))
        return table


def _events(account: Account) -> str:
    return f"{account.received or account.committed:>5,}/{account.expected:,} events"


def _percentiles(latencies: Sequence[float]) -> str:
    ordered = sorted(latencies)
    return (
        "  ".join(f"p{percent} {duration(percentile(ordered, percent)):>7}" for percent in (50, 99)) if ordered else ""
    )
