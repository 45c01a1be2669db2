"""`walrelay cleanup`: deletes old rows that were published and are confirmed."""

import json
from typing import Any

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.ending import signalled
from walrelay.cli.options import waiting
from walrelay.cli.progress import Bars, count
from walrelay.config import values
from walrelay.operations.cleanup import CleanupReport, CleanupRequest, age_to_clean, cleaning
from walrelay.wiring import Wiring


class _Duration(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic since click 8.4
    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return values.duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@one_relay
@click.option("--older-than", type=_Duration(), help="Minimum age of a row, as in 7d. Default: `retention`.")
@click.option("--dry-run", is_flag=True, help="Count what would be deleted, and change nothing.")
@click.option(
    "--pace",
    type=click.FloatRange(0.01, 1),
    default=0.1,
    show_default=True,
    help="The share of the time that it spends deleting; 1 means without pauses.",
)
@click.option(
    "--timeout",
    type=waiting,
    default=30.0,
    show_default=True,
    help="Seconds to wait until the slots have confirmed the rows.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def cleanup(
    ctx: click.Context,
    relay: Chosen,
    older_than: float | None,
    dry_run: bool,
    pace: float,
    timeout: float,
    as_json: bool,
) -> None:
    """Delete old rows that were published and are confirmed.

    From a partitioned outbox it drops whole days.

    It works in small batches with pauses, so that writers do not notice, and never deletes a row that is not
    confirmed. Ctrl-C stops it after the current batch (exit code 1).

    \b
    Example:
      walrelay cleanup --older-than 7d --dry-run
      walrelay cleanup --older-than 12h --pace 0.5
    """
    wiring = compose.wiring(relay.settings())
    age = age_to_clean(wiring, older_than)
    if age is None:
        raise click.UsageError("How old? Give --older-than, as in --older-than 7d, or set `retention` in the settings.")
    tally = _worked(wiring, CleanupRequest(age, dry_run, pace, timeout))
    if as_json:
        click.echo(json.dumps(vars(tally)))
    else:
        _tell(tally, wiring.slot, dry_run=dry_run)
    if not tally.complete:
        click.echo("stopped before the end: run it again", err=True)
        ctx.exit(1)


def _worked(wiring: Wiring, request: CleanupRequest) -> CleanupReport:
    stop = signalled()
    with cleaning(wiring, request, stop.wait) as (steps, tally):
        with Bars() as bars:
            for step in steps:
                bars.at(step.what, step.done, step.whole)
                if stop.is_set():
                    break
        return tally


def _tell(tally: CleanupReport, slot: str, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    click.echo(f"{count(tally.rows, 'row')} {would}deleted")
    for table in tally.dropped:
        click.echo(f"{would}dropped  {table}")
    for day in tally.made:
        click.echo(f"{would}made  the partition of {day}")
    for note in tally.notes:
        click.echo(f"note: {note}", err=True)
    if hint := tally.hint(slot):
        click.echo(f"hint: {hint}", err=True)
