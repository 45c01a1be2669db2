"""The benchmark's display: live on a terminal, a line for each segment elsewhere, then the result in tables."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self

from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderResult
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from walrelay.lab.bench import conditions, wording
from walrelay.lab.bench.account import LatencyAccount, Measured, percentile
from walrelay.lab.bench.results import Cost, LatencyResult, Run, Strategy, ThroughputResult
from walrelay.lab.bench.wording import UNKNOWN, cpu_ms, duration, is_ours, label, number, size

_INTERVAL = 0.25  # seconds between two drawings
_RECENT = 200  # events over which the running p50 goes


class SegmentProgress:
    """On a terminal how each strategy stands, drawn four times a second at most; a line for each segment elsewhere."""

    def __init__(self, console: Console, names: Sequence[str], rounds: int) -> None:
        self._console, self._rounds = console, rounds
        columns = (
            TextColumn(" {task.description}"),
            BarColumn(20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}"),
        )
        self._bars = Progress(
            *columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal
        )
        self._tasks = {name: self._bars.add_task(name, total=rounds, said="") for name in names}
        self._latencies: dict[str, list[float]] = {name: [] for name in names}
        self._widest = max(len(name) for name in names)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, number: int, name: str) -> None:
        """A segment of round `number`, counted from 1."""
        self._round, self._name = number, name
        self._account: LatencyAccount | None = None
        self._until: float | None = None

    def follow(self, account: LatencyAccount) -> None:
        """The segment's account."""
        self._account = account

    def idle(self, seconds: float) -> None:
        """Nothing is written for so long."""
        self._until = time.monotonic() + seconds

    def refresh(self) -> None:
        """Something may have changed."""
        if not self._bars.disable and time.monotonic() - self._drawn > _INTERVAL:
            self._drawn = time.monotonic()
            task = self._tasks.get(self._name, next(iter(self._tasks.values())))  # a rehearsal has none
            self._bars.update(task, said=f"[bold]{self._doing()}[/]", refresh=True)

    def end(self, measured: Measured) -> None:
        latencies = measured.account.latencies_ms
        self._latencies[self._name] += latencies
        said = f"[dim]{_percentiles(self._latencies[self._name])}[/]"
        self._bars.update(self._tasks[self._name], advance=1, said=said)
        if self._bars.disable:
            shown = f"{self._name:<{self._widest}}  {_events(measured.account)}  {_percentiles(latencies)}"
            self._console.print(f" round {self._round}/{self._rounds}  {shown}", highlight=False)

    def _doing(self) -> str:
        account = self._account
        if self._until is not None:
            return f"idle for another {max(0.0, self._until - time.monotonic()):.0f} s"
        if account is None or not account.committed:
            return "warming up"
        latencies = sorted(account.latencies_ms[-_RECENT:])
        recent = f"  [cyan]p50 {duration(percentile(latencies, 50))}[/]" if latencies else ""
        return f"{_events(account)}{recent}"


def _events(account: LatencyAccount) -> str:
    return f"{account.received or account.committed:>5,}/{account.expected:,} events"


def _percentiles(latencies: Sequence[float]) -> str:
    ordered = sorted(latencies)
    return (
        "  ".join(f"p{percent} {duration(percentile(ordered, percent)):>7}" for percent in (50, 99)) if ordered else ""
    )


_GAP = 2
_BARS = range(8, 33)  # characters that a bar may have; without the room for the fewest there is none
_ASCII = str.maketrans({"━": "=", "─": "-", "–": "-", "−": "-", "×": "x", "→": ">"})
_NO_LIMIT = "The limit was not measured in this run."


class BenchReport:
    """Drawn for the width there is, and for terminals that know no more than ASCII."""

    def __init__(self, parts: Callable[[int], Iterable[ConsoleRenderable]]) -> None:
        self._parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(Group(*self._parts(options.max_width)), options):
            yield Segment(segment.text.translate(_ASCII), *segment[1:]) if options.ascii_only else segment


def latency_tables(result: LatencyResult) -> ConsoleRenderable:
    """Latency, then cost, then notes."""
    return BenchReport(lambda width: _latency(result, width))


def throughput_tables(result: ThroughputResult) -> ConsoleRenderable:
    """Who drained how fast, then notes."""
    return BenchReport(lambda width: _throughput(result, width))


def _latency(result: LatencyResult, width: int) -> Iterator[ConsoleRenderable]:
    strategies = wording.ordered(result)
    yield _latency_table(result, strategies, width)
    yield Text()
    yield _cost_table(result, strategies)
    yield Text()
    yield _worker_table(strategies)
    yield _notes(
        "Costs are net: beyond the writer's own work, which was measured alone and subtracted.",
        wording.noise(result),
        _whose_statements(result),
        None if wording.idle_was_measured(strategies) else "What an idle minute costs was not measured in this run.",
        *_measured_on(result),
    )


def _whose_statements(result: LatencyResult) -> str | None:
    if result.writer_per_1000.statements is not None:
        return None
    counted = any(strategy.per_1000.statements is not None for strategy in result.strategies)
    return "Statements are those of the worker's role; the writer has none of them." if counted else None


def _latency_table(result: LatencyResult, strategies: Sequence[Strategy], width: int) -> Table:
    table = _table("COMMIT to consumer, milliseconds")
    _columns(table, "p50", "p90", "p99", "max", "× walrelay", "lost/dup/order")
    scale = _scale(strategies)
    rows: list[list[str | Text]] = [
        [
            _name(strategy.name),
            *(number(value) for value in strategy[1:5]),
            wording.slower(strategy, result),
            _faults(strategy),
        ]
        for strategy in strategies
    ]
    return _with_bars(
        table, rows, [_log_bar(strategy, scale) for strategy in strategies], "━ p50 ─ p99, log scale", width
    )


def _cost_table(result: LatencyResult, strategies: Sequence[Strategy]) -> Table:
    table = _table("What the database paid")
    _columns(table, "statements", "WAL", "dead tuples", "CPU ms")
    table.add_row(Text("per 1,000 events", "dim"))
    for strategy in strategies:
        table.add_row(_name(strategy.name), *_cost(strategy.per_1000))
    table.add_row(*(Text(cell, "dim") for cell in ("the writer alone", *_cost(result.writer_per_1000))))
    if wording.idle_was_measured(strategies):
        table.add_row()
        table.add_row(Text("per idle minute", "dim"))
        for strategy in strategies:
            table.add_row(_name(strategy.name), *_cost(strategy.idle_minute))
    return table


def _worker_table(strategies: Sequence[Strategy]) -> Table:
    table = _table("What the worker took, a process beside the database")
    _columns(table, *wording.WORKER_HEADS)
    for each in strategies:
        table.add_row(_name(each.name), *wording.worker(each))
    return table


def _throughput(result: ThroughputResult, width: int) -> Iterator[ConsoleRenderable]:
    table = _table("Draining a backlog")
    _columns(table, "events/s", "in the rounds", "of limit", "CPU s", "walsender", "memory")
    most = max((run.events_per_second for run in result.runs), default=0)
    yield _with_bars(
        table,
        [_run(run) for run in result.runs],
        [_linear_bar(run, most) for run in result.runs],
        "",
        width,
    )
    yield _notes(
        *(f"Not run: {label(name)}: {reason}" for name, reason in result.not_run),
        *_limit(result),
        wording.above_the_limit(result),
        "CPU: seconds per million events, of the reader and of the walsender, the server process that sends to it.",
        *_measured_on(result),
    )


def _run(run: Run) -> list[str | Text]:
    ratio = UNKNOWN if run.ratio_to_limit is None else f"{run.ratio_to_limit:.2f}"
    cpu = (number(run.cpu_s_per_million), number(run.walsender_cpu_s_per_million))
    return [
        _name(label(run.name)),
        number(run.events_per_second),
        wording.spread(run),
        ratio,
        *cpu,
        size(run.peak_rss_bytes),
    ]


def _limit(result: ThroughputResult) -> Iterator[str]:
    limit = wording.limit_of(result)
    yield f"The limit is {label(limit.name)}, which does nothing with what it reads." if limit else _NO_LIMIT


def _table(title: str) -> Table:
    table = Table(title=f"{title}\n", title_style="bold", title_justify="left", box=None, padding=(0, _GAP, 0, 0))
    table.add_column("", overflow="fold")  # the one that gives way where it is narrow
    return table


def _columns(table: Table, *heads: str) -> None:
    for head in heads:
        table.add_column(head, justify="right", header_style="dim", no_wrap=True)


def _with_bars(
    table: Table, rows: Sequence[Sequence[str | Text]], bars: Sequence[Callable[[int], Text]], head: str, width: int
) -> Table:
    """The bars take what the numbers leave; where that is too little, they are left out."""
    wide = [
        max(len(str(cell)) for cell in cells)
        for cells in zip(*rows, [str(c.header) for c in table.columns], strict=True)
    ]
    room = min(width - sum(wide) - _GAP * (len(wide) + 1), _BARS.stop - 1)
    if room in _BARS:
        table.add_column(Text(head if len(head) <= room else "", "dim"), no_wrap=True)
    for cells, bar in zip(rows, bars, strict=True):
        table.add_row(*cells, *([bar(room)] if room in _BARS else []))
    return table


def _name(name: str) -> Text:
    return Text(name, "bold cyan" if is_ours(name) else "")


def _faults(strategy: Strategy) -> Text:
    counts = f"{strategy.lost:,}/{strategy.duplicates:,}/{strategy.out_of_order:,}"
    return Text("0", "green") if strategy.sound else Text(counts, "bold red")


def _cost(cost: Cost | None) -> list[str]:
    if cost is None:
        return [UNKNOWN] * 4
    return [number(cost.statements), size(cost.wal_bytes), number(cost.dead_tuples), number(cpu_ms(cost.server_cpu_s))]


def _scale(strategies: Sequence[Strategy]) -> Callable[[float], float]:
    """A latency's place between the first decade and the highest p99, from 0 to 1."""
    known = [value for each in strategies for value in (each.p50_ms, each.p99_ms) if 0 < value < math.inf]
    low = 10.0 ** math.floor(math.log10(min(known, default=1.0) / 2))
    decades = math.log10(max(known, default=1.0) / low)
    return lambda ms: min(1.0, max(0.0, math.log10(ms / low) / decades)) if 0 < ms < math.inf else 0.0


def _log_bar(strategy: Strategy, scale: Callable[[float], float]) -> Callable[[int], Text]:
    def bar(room: int) -> Text:
        half, most = (round(scale(ms) * room) for ms in (strategy.p50_ms, strategy.p99_ms))
        ours = is_ours(strategy.name)
        return Text.assemble(("━" * half, "cyan" if ours else ""), ("─" * max(0, most - half), "dim"))

    return bar


def _linear_bar(run: Run, most: float) -> Callable[[int], Text]:
    share = run.events_per_second / most if most else 0.0
    return lambda room: Text("━" * round(share * room), "cyan" if is_ours(run.name) else "")


def _measured_on(result: LatencyResult | ThroughputResult) -> Iterator[str]:
    yield conditions.workload(result.workload)
    yield conditions.machine(result.machine)
    yield conditions.versions(result.versions)
    yield f"{result.date}  {result.command}"


def _notes(*lines: str | None) -> ConsoleRenderable:
    text = Text("\n".join(line for line in lines if line), "dim")
    return Padding(text, (1, 0))
