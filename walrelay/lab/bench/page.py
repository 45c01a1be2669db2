"""A benchmark's report as files: a page that stands on its own, its chart as SVG and PNG, the numbers as JSON."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment, FunctionLoader, StrictUndefined
from matplotlib.figure import Figure

from walrelay.errors import Fatal
from walrelay.lab.bench import chart, conditions, drawing, wording
from walrelay.lab.bench.results import READERS, SINKS, Cost, LatencyResult, Run, Strategy, ThroughputResult
from walrelay.lab.bench.wording import UNKNOWN, cpu_ms, duration, interval, is_ours, label, number, size, tied


class Cell(NamedTuple):
    text: str
    kind: str = ""  # best, alarm, good


class PageLine(NamedTuple):
    label: str
    kind: str  # ours, zero
    cells: Sequence[Cell]


class PageTable(NamedTuple):
    caption: str
    heads: Sequence[str]
    rows: Sequence[PageLine]


def latencies(result: LatencyResult) -> PageTable:
    strategies = wording.ordered(result)
    percentiles = zip(*(each[1:5] for each in strategies), strict=True)
    columns = [_column(values, number, min) for values in percentiles]
    ratios = [Cell(wording.slower(each, result)) for each in strategies]
    events = [Cell(f"{each.events:,}") for each in strategies]
    broken = [[_count(count) for count in counts] for counts in zip(*map(_broken, strategies), strict=True)]
    heads = ("p50", "p90", "p99", "max", "p50 ratio", "events", "lost", "duplicate", "out of order")
    names = [each.name for each in strategies]
    return PageTable("", heads, _lines(names, [*columns, ratios, events, *broken]))


def costs(result: LatencyResult) -> list[PageTable]:
    """Per 1,000 events, and per idle minute where that was measured."""
    strategies = wording.ordered(result)
    names = [each.name for each in strategies]
    heads = ("statements", "WAL", "dead tuples", "CPU ms")
    writer = PageLine("the writer alone", "zero", [column[0] for column in _costs([result.writer_per_1000])])
    lines = [*_lines(names, _costs([each.per_1000 for each in strategies])), writer]
    tables = [PageTable("Per 1,000 events", heads, lines)]
    if wording.idle_was_measured(strategies):
        idle = _lines(names, _costs([each.idle_minute for each in strategies]))
        tables.append(PageTable("Per idle minute", heads, idle))
    return tables


def workers(result: LatencyResult) -> PageTable:
    """What the processes themselves take that carry the events."""
    strategies = wording.ordered(result)
    columns = zip(*([Cell(text) for text in wording.worker(each)] for each in strategies), strict=True)
    return PageTable("", wording.WORKER_HEADS, _lines([each.name for each in strategies], list(columns)))


def runs(measured: Sequence[Run]) -> PageTable:
    columns = [
        _column([run.events_per_second for run in measured], number, max),
        [Cell(wording.spread(run)) for run in measured],
        [Cell(UNKNOWN if run.ratio_to_limit is None else f"{run.ratio_to_limit:.2f}") for run in measured],
        _column([run.cpu_s_per_million for run in measured], number, min),
        _column([run.walsender_cpu_s_per_million for run in measured], number, min),
        _column([run.peak_rss_bytes for run in measured], size, min),
    ]
    heads = ("events/s", "in the rounds", "of the limit", "reader's CPU, s", "walsender's CPU, s", "peak memory")
    return PageTable("", heads, _lines([run.name for run in measured], columns))


def _lines(names: Sequence[str], columns: Sequence[Sequence[Cell]]) -> list[PageLine]:
    return [
        PageLine(label(name), "ours" if is_ours(name) else "", [column[number] for column in columns])
        for number, name in enumerate(names)
    ]


def _costs(paid: Sequence[Cost | None]) -> list[list[Cell]]:
    def of(value: Callable[[Cost], float | None], text: Callable[[float | None], str]) -> list[Cell]:
        return _column([None if cost is None else value(cost) for cost in paid], text, min)

    return [
        of(lambda cost: cost.statements, number),
        of(lambda cost: cost.wal_bytes, size),
        of(lambda cost: cost.dead_tuples, number),
        of(lambda cost: cpu_ms(cost.server_cpu_s), number),
    ]


def _column(
    values: Sequence[float | None],
    text: Callable[[float | None], str],
    best: Callable[[Sequence[float]], float],
) -> list[Cell]:
    """What reads the same as the best is as good."""
    texts = [text(value) for value in values]
    known = [value for value in values if value is not None and math.isfinite(value)]
    winner = text(best(known)) if len({text(value) for value in known}) > 1 else None
    return [Cell(each, "best" if each == winner else "") for each in texts]


def _broken(strategy: Strategy) -> tuple[int, int, int]:
    return strategy.lost, strategy.duplicates, strategy.out_of_order


def _count(count: int) -> Cell:
    return Cell(f"{count:,}", "alarm" if count else "good")


def write_latency(result: LatencyResult, directory: Path) -> Path:
    """Writes latency.html, .svg, .png and .json; returns where the page is."""
    strategies = wording.ordered(result)
    intervals = [each for each in (interval(strategy.name) for strategy in strategies) if each]
    spread = _charts(result, chart.histograms)
    return _write(
        "latency",
        result,
        directory,
        draw=chart.latency,
        title=wording.latency_title(result),
        nearest=tied(wording.nearest(result)),
        headline=tied(wording.latency_headline(result)),
        latencies=latencies(result),
        faults=[(label(each.name), wording.faults(each)) for each in strategies if not each.sound],
        costs=costs(result),
        workers=workers(result),
        noise=wording.noise(result),
        histograms=_svg("histograms", spread, "How the latencies are spread", _medians(strategies)),
        idle=wording.idle_was_measured(strategies),
        polling=tied(_either(intervals)),
        strategies={strategy.name for strategy in strategies},
        workers_only=result.writer_per_1000.statements is None,
    )


def write_throughput(result: ThroughputResult, directory: Path) -> Path:
    """Writes throughput.html, .svg, .png and .json; returns where the page is."""
    limit = wording.limit_of(result)
    return _write(
        "throughput",
        result,
        directory,
        draw=chart.throughput,
        title=wording.throughput_title(result),
        headline=wording.throughput_headline(result),
        runs=runs(result.runs),
        limit=label(limit.name) if limit else None,
        above=wording.above_the_limit(result),
        readers=[(label(run.name), {**READERS, **SINKS}.get(run.name, run.name)) for run in result.runs],
        polled=any(run.name == "polling" for run in result.runs),
        not_run=[(label(name), reason) for name, reason in result.not_run],
    )


R = TypeVar("R", LatencyResult, ThroughputResult)


def _charts(result: R, draw: Callable[..., Figure | None]) -> Mapping[str, Figure]:
    """By the class of the screens that it is for; empty where there is nothing to draw."""
    figures = {kind: draw(result, phone=kind == "phone") for kind in ("wide", "phone")}
    return {kind: figure for kind, figure in figures.items() if figure is not None}


def _svg(name: str, charts: Mapping[str, Figure], title: str, said: str) -> Mapping[str, str]:
    return {kind: drawing.svg(figure, f"{name}-{kind}", title, said) for kind, figure in charts.items()}


def _write(name: str, result: R, directory: Path, draw: Callable[..., Figure], **shown: Any) -> Path:
    """`draw`: the chart, which also stands beside the page, for paper and for other documents."""
    directory.mkdir(parents=True, exist_ok=True)
    numbers = json.dumps(_known(result.json()), indent=2, ensure_ascii=False, allow_nan=False)
    charts = _charts(result, draw)
    cards = _svg(name, charts, shown["title"], shown["headline"])
    page = (
        _environment()
        .get_template(f"{name}.html")
        .render(
            kind=f"walrelay bench {name}",
            cards=cards,
            json=numbers,
            workload=conditions.workload(result.workload),
            machine=conditions.machine(result.machine),
            versions=conditions.versions(result.versions),
            command=result.command,
            date=result.date,
            **shown,
        )
    )
    _save(directory / f"{name}.json", f"{numbers}\n".encode())
    _save(directory / f"{name}.svg", cards["wide"].encode())
    _save(directory / f"{name}.png", drawing.png(charts["wide"]))
    return _save(directory / f"{name}.html", page.encode())


def _save(path: Path, content: bytes) -> Path:
    """An error while writing does not say by itself which file it is about."""
    try:
        path.write_bytes(content)
    except OSError as cause:
        raise Fatal(
            f"the report {path} cannot be written: {cause.strerror}",
            hint="The numbers are on the screen. Make room there, or give --report another directory.",
        ) from cause
    return path


def _environment() -> Environment:
    here = files("walrelay.lab.bench") / "templates"
    return Environment(
        loader=FunctionLoader(lambda name: here.joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _known(value: Any) -> Any:
    """JSON has no word for what is not a number."""
    if isinstance(value, dict):
        return {name: _known(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_known(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _medians(strategies: Sequence[Strategy]) -> str:
    return "; ".join(f"{label(each.name)}: half within {duration(each.p50_ms)}" for each in strategies)


def _either(words: list[str]) -> str:
    """ "100 ms, 1 s or 5 s"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
