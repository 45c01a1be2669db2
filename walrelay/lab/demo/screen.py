"""The demo's display: the steps, the events as they come, the summary. Plain lines where there is no terminal."""

from collections import deque
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from walrelay.lab.demo.events import Change, DemoTally, LatencyQuantiles, Result
from walrelay.lab.screen import Screen

_LINES = 8  # of events on the terminal
_REPORTS = 5  # on the way, where there is no terminal


class DemoScreen(Screen):
    def opening(self, events: int, consumer: str = "a Kafka consumer") -> None:
        self.console.print(
            f"[bold]walrelay demo[/]: {events:,} events from COMMIT in PostgreSQL to {consumer}\n",
            highlight=False,
        )

    def stream(self, events: int) -> "EventLines":
        """Shows the events while it is entered."""
        return LiveStream(self.console, events) if self.console.is_terminal else EventLines(self.console, events)

    def summary(self, result: Result) -> None:
        self.console.print(_summary(result), highlight=False)


class EventLines:
    """A line now and then."""

    def __init__(self, console: Console, events: int) -> None:
        self._console, self._events = console, events
        self._reported = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def event(self, change: Change, latency_ms: float) -> None:
        """One that arrived."""

    def show(self, tally: DemoTally) -> None:
        """How it stands."""
        if tally.arrived * _REPORTS // self._events > self._reported:
            self._reported = tally.arrived * _REPORTS // self._events
            count = f"{tally.arrived:,}/{self._events:,}"
            self._console.print(f"   {count:>15} arrived   {_recent(tally.recent)}", highlight=False)


class LiveStream(EventLines):
    """The last events, calmly: they move up as new ones come, ten times a second at most."""

    def __init__(self, console: Console, events: int) -> None:
        super().__init__(console, events)
        self._last: deque[tuple[Change, float]] = deque(maxlen=_LINES)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def event(self, change: Change, latency_ms: float) -> None:
        self._last.append((change, latency_ms))

    def show(self, tally: DemoTally) -> None:
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=self._events, completed=tally.arrived, width=30),
            f"{tally.arrived:,}/{self._events:,}",
            f"[cyan]{_recent(tally.recent)}[/]",
        )
        self._live.update(Group("", bar, "", self._events_table()), refresh=True)

    def _events_table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for style in ("dim", "bold", "", "", "cyan"):
            table.add_column(style=style, no_wrap=True)
        table.columns[3].justify = table.columns[4].justify = "right"
        for change, latency in self._last:
            order = change.order
            table.add_row(f"   {order.id}", change.type, order.customer, f"{order.total:,.2f}", f"{latency:.1f} ms")
        return table


def _recent(latency: LatencyQuantiles) -> str:
    return f"p50 {latency.p50:.1f} ms   p99 {latency.p99:.1f} ms"


def _summary(result: Result) -> Panel:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(justify="right", style="bold", no_wrap=True)
    rows.add_column()
    rows.add_row(f"{result.events:,}", "events committed together with their business rows")
    rows.add_row(_count(result.lost), "lost")
    rows.add_row(_count(result.out_of_order), "out of order")
    rows.add_row(_count(result.duplicates, "yellow"), "duplicates")
    rows.add_row(
        _count(result.uncommitted), f"arrived without a commit; {result.rolled_back:,} transactions were rolled back"
    )
    latency = result.latency_ms
    rows.add_row("", "")
    rows.add_row(
        Text(f"{latency.p50:.1f} ms", "bold cyan"),
        f"from COMMIT to the consumer: p50   [dim]p99 {latency.p99:,.1f} ms, slowest {latency.max:,.1f} ms[/]",
    )
    rows.add_row(Text(f"{result.events_per_second:,.0f}", "bold cyan"), "events a second")
    verdict = "[bold green]Everything committed arrived[/]" if result.kept else "[bold red]The promise was broken[/]"
    further = Text.from_markup("\nNext, with your own database:  [bold]walrelay config example > walrelay.yaml[/]")
    return Panel(Group(rows, further), title=verdict, padding=(1, 3), expand=False)


def _count(number: int, style: str = "red") -> Text:
    return Text(f"{number:,}", f"bold {style}" if number else "bold green")
