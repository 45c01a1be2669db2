"""What was found, as Markdown: the table, walrelay beside Debezium Server, and what was not run."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from tests.bench.peers.registry import peers
from tests.bench.peers.results import Result, Run, merge

_WALRELAY, _DEBEZIUM = "walrelay", "debezium-server"


class Column(NamedTuple):
    """One number of one measurement."""

    title: str
    measurement: str
    value: str
    digits: int
    worst: bool = False  # over the rounds: the largest, not the median


_COLUMNS = (
    Column("events/s", "drain", "events_per_second", 0),
    Column("CPU s per million", "drain", "cpu_per_million", 1),
    Column("peak RSS MB", "drain", "peak_rss_mb", 0),
    Column("start to first event s", "drain", "start_to_first_event_seconds", 1),
    Column("p50 ms", "latency", "p50_ms", 1),
    Column("p99 ms", "latency", "p99_ms", 1),
    Column("lost", "kill", "lost", 0, worst=True),
    Column("duplicates", "kill", "duplicates", 0),
    Column("out of order", "kill", "out_of_order", 0, worst=True),
    Column("back after s", "kill", "back_after_seconds", 1),
)

_COST = (
    Column("PostgreSQL's CPU s per million", "drain", "postgres_cpu_per_million", 1),
    Column("start-up CPU s", "drain", "start_up_cpu", 1),
    Column("CPU s per 1,000 events at a low rate", "latency", "cpu_per_thousand", 2),
    Column("idle, % of a core", "latency", "idle_cpu_percent", 1),
    Column("RSS MB at a low rate", "latency", "peak_rss_mb", 0),
    Column("max ms", "latency", "max_ms", 0),
)

_COMPARED = (_COLUMNS[0], _COLUMNS[1], _COLUMNS[2], _COLUMNS[4])


def render(runs: Sequence[Run]) -> str:
    """Runs of one machine, the oldest first."""
    if any(run.machine != runs[0].machine for run in runs):
        raise ValueError("these runs were made on different machines")
    order = [peer.name for peer in peers()]
    results = sorted(merge(runs), key=lambda result: order.index(result.peer))
    parts = [
        _where(runs),
        _table(results, _COLUMNS),
        _table(results, _COST),
        _ratios(results),
        _list("Beside the numbers:", _notes(results)),
        _list("Not run, or not measured:", _reasons(results)),
        _list("Versions:", sorted({f"{result.peer} {result.version}" for result in results if result.version})),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _where(runs: Sequence[Run]) -> str:
    machine = "{cores} cores ({cpu}), {memory_gb} GB".format(**runs[-1].machine)
    versions = ", ".join(f"{name} {version}" for name, version in runs[-1].versions.items())
    dates = " and ".join(dict.fromkeys(run.date.partition(" ")[0] for run in runs))
    plans = " ".join(dict.fromkeys(_plan(run) for run in runs))
    return f"{dates}, {machine}, {versions}. {plans}"


def _plan(run: Run) -> str:
    plan = run.plan
    return (
        f"Drained: {plan['rows']:,} rows. Latency: {plan['rate']:g} commits/s for {plan['seconds']:g} s."
        f" kill -9: at {plan['kill_rate']:g} commits/s."
    )


def _table(results: Sequence[Result], columns: Sequence[Column]) -> str:
    variants = dict.fromkeys((result.peer, result.variant) for result in results if result.values)
    head = [["", "variant", *(column.title for column in columns)], ["---", "---", *("---:" for _ in columns)]]
    rows = [
        [peer, variant, *(_cell(results, peer, variant, column) for column in columns)] for peer, variant in variants
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (*head, *rows))


def _cell(results: Iterable[Result], peer: str, variant: str, column: Column) -> str:
    value = _value(results, peer, variant, column)
    return "–" if value is None else f"{value:,.{column.digits}f}"


def _value(results: Iterable[Result], peer: str, variant: str, column: Column) -> float | None:
    """Over the rounds; None where no round has it."""
    found = [
        result.values[column.value]
        for result in results
        if (result.peer, result.variant, result.measurement) == (peer, variant, column.measurement)
        and column.value in result.values
    ]
    if not found:
        return None
    return max(found) if column.worst else median(found)


def _ratios(results: Sequence[Result]) -> str:
    rows = []
    for column in _COMPARED:
        ours, theirs = (_value(results, peer, "tuned", column) for peer in (_WALRELAY, _DEBEZIUM))
        if ours is not None and theirs:
            shown = (f"{value:,.{column.digits}f}" for value in (ours, theirs))
            rows.append(f"| {column.title} | {' | '.join(shown)} | {ours / theirs:#.3g} |")
    head = ["| both tuned | walrelay | Debezium Server | ratio |", "|---|---:|---:|---:|"]
    return "\n".join([*head, *rows]) if rows else ""


def _notes(results: Iterable[Result]) -> list[str]:
    return [f"{_name(result)}: {note}" for result in results for note in result.notes]


def _reasons(results: Iterable[Result]) -> list[str]:
    return [f"{_name(result)}: {result.reason}" for result in results if result.reason]


def _name(result: Result) -> str:
    return ", ".join(part for part in (result.peer, result.variant, result.measurement) if part)


def _list(title: str, items: Sequence[str]) -> str:
    return "\n".join([title, "", *(f"- {item}" for item in dict.fromkeys(items))]) if items else ""
