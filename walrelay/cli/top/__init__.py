"""`walrelay top`: what all relays of the file do, live."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from shutil import get_terminal_size
from time import sleep

import click

from walrelay import compose
from walrelay.cli import ending
from walrelay.cli.chosen import several_option
from walrelay.cli.options import config_option
from walrelay.cli.remote import RemoteApi, api_option
from walrelay.cli.top.looking import Looking, RemoteLooking, TopLook
from walrelay.cli.top.page import TopPage
from walrelay.cli.top.table import table
from walrelay.cli.top.terminal import Terminal
from walrelay.config import load_relays
from walrelay.errors import SettingsError

_WIDE = 200  # columns where there is no terminal


@click.command()
@config_option
@several_option
@api_option
@click.option("--once", is_flag=True, help="Print one table and end, as where there is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each relay and end.")
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.pass_context
def top(
    ctx: click.Context,
    config_path: Path,
    relay_names: tuple[str, ...],
    api: str,
    once: bool,
    as_json: bool,
    interval: float,
) -> None:
    """Watch the relays: rates, lag, WAL, latency, errors.

    What the server knows comes from PostgreSQL; rates, messages in flight and latency are asked of the processes that
    lead. Relays of other files in the same databases are shown too, unless some are named. It changes nothing.

    \b
    Keys:
      up, down, j, k   select a relay, whose details are shown
      s, S             sort by the next column, or the one before
      r                the other way round
      q                quit

    \b
    Example:
      walrelay top
      walrelay top --once
      walrelay top --json | jq 'select(.level != "ok") | .name, .why'
    """
    left_out: list[SettingsError] = []
    databases: dict[str, dict[str, str]] = {}
    for name, settings in {} if api else load_relays(config_path, relay_names, left_out).items():
        wiring = compose.wiring(settings)
        databases.setdefault(wiring.dsn, {})[wiring.slot] = name or wiring.slot
    faults = [str(each) for each in left_out]
    with (
        RemoteLooking(RemoteApi(api), relay_names)
        if api
        else Looking(databases, only_named=bool(relay_names)) as looking
    ):
        if not (once or as_json) and sys.stdin.isatty() and sys.stdout.isatty():
            with Terminal() as terminal:
                TopPage(looking, terminal, faults, interval).show()
            return
        looking.look()
        sleep(interval)  # rates are differences
        look = looking.look()
    codes = [ending.report(each) for each in left_out]
    codes += [ending.report(error, f"{names}: ") for names, error in look.errors]
    _print(look, as_json)
    ctx.exit(max([ending.DONE, *codes]))


def _print(look: TopLook, as_json: bool) -> None:
    width = get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    lines: Iterable[str] = table(look.relays, width)
    if as_json:
        lines = (json.dumps(each.as_json()) for each in look.relays)
    for line in lines:
        click.echo(line)
