"""A benchmark's report as files: a page that stands on its own, its chart as SVG and PNG, the numbers as JSON."""

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from walrelay.errors import Fatal
from walrelay.lab.bench.report import chart, columns, findings, surroundings
from walrelay.lab.bench.report.histogram import HEIGHT, WIDTH, histograms
from walrelay.lab.bench.report.sheet import Sheet
from walrelay.lab.bench.report.wording import interval, label, tied
from walrelay.lab.bench.results import LatencyResult, ThroughputResult
from walrelay.lab.bench.throughput.request import READERS


def write_latency(result: LatencyResult, directory: Path) -> Path:
    """Writes latency.html, .svg, .png and .json; returns where the page is."""
    strategies = findings.ordered(result)
    intervals = [each for each in (interval(strategy.name) for strategy in strategies) if each]
    return _write(
        "latency",
        result,
        directory,
        sheets=(chart.latency(result), chart.latency(result, chart.PHONE)),
        title=findings.latency_title(result),
        nearest=tied(findings.nearest(result)),
        headline=tied(findings.latency_headline(result)),
        latencies=columns.latencies(result),
        faults=[(label(each.name), findings.faults(each)) for each in strategies if not each.sound],
        costs=columns.costs(result),
        noise=findings.noise(result),
        histograms=histograms(strategies),
        width=WIDTH,
        height=HEIGHT,
        idle=findings.idle_was_measured(strategies),
        polling=tied(_either(intervals)),
        strategies={strategy.name for strategy in strategies},
        workers_only=result.writer_per_1000.statements is None,
    )


def write_throughput(result: ThroughputResult, directory: Path) -> Path:
    """Writes throughput.html, .svg, .png and .json; returns where the page is."""
    limit = findings.limit_of(result)
    return _write(
        "throughput",
        result,
        directory,
        sheets=(chart.throughput(result), chart.throughput(result, chart.PHONE)),
        title=findings.throughput_title(result),
        headline=findings.throughput_headline(result),
        runs=columns.runs(result.runs),
        limit=label(limit.name) if limit else None,
        above=findings.above_the_limit(result),
        readers=[(label(run.name), READERS.get(run.name, run.name)) for run in result.runs],
        polled=any(run.name == "polling" for run in result.runs),
        not_run=[(label(name), reason) for name, reason in result.not_run],
    )


def _write(
    name: str, result: LatencyResult | ThroughputResult, directory: Path, sheets: tuple[Sheet, Sheet], **shown: Any
) -> Path:
    """`sheets`: the chart for wide screens, for paper and for other documents; the chart for phones."""
    directory.mkdir(parents=True, exist_ok=True)
    numbers = json.dumps(_known(result.json()), indent=2, ensure_ascii=False, allow_nan=False)
    wide, phone = (sheet.svg(shown["title"], shown["headline"]) for sheet in sheets)
    page = (
        _environment()
        .get_template(f"{name}.html")
        .render(
            kind=f"walrelay bench {name}",
            wide=wide,
            phone=phone,
            json=numbers,
            workload=surroundings.workload(result.workload),
            machine=surroundings.machine(result.machine),
            versions=surroundings.versions(result.versions),
            command=result.command,
            date=result.date,
            **shown,
        )
    )
    _save(directory / f"{name}.json", f"{numbers}\n".encode())
    _save(directory / f"{name}.svg", wide.encode())
    _save(directory / f"{name}.png", sheets[0].png())
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
    here = files("walrelay.lab.bench.report")
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


def _either(words: list[str]) -> str:
    """ "100 ms, 1 s or 5 s"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
