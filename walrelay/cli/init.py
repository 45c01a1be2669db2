"""`walrelay init`: makes table, function, publication and slot, as far as they are not there."""

from pathlib import Path

import click

from walrelay import compose
from walrelay.cli.options import config_option
from walrelay.config import load
from walrelay.source import setup
from walrelay.source.catalog import Catalog


@click.command()
@config_option
@click.option("--dry-run", is_flag=True, help="Print the SQL of what is missing, and change nothing.")
@click.option("--timeout", type=float, default=30.0, show_default=True, help="Seconds to wait for open transactions.")
def init(config_path: Path, dry_run: bool, timeout: float) -> None:
    """Make what the relay needs in the database: outbox table, walrelay.emit, publication, slot.

    Running it again is safe: what is there stays as it is, and a slot that was lost is not made anew.

    \b
    Example:
      walrelay init --dry-run
      walrelay init -c walrelay.yaml
    """
    settings = load(config_path)
    wanted = compose.wanted(settings)
    with Catalog(compose.dsn(settings)) as catalog:
        steps = setup.plan(catalog, wanted)
        if dry_run:
            click.echo("\n".join(f"-- {step.what}\n{step.sql}" for step in steps if not step.present), nl=False)
            return
        for step, outcome in setup.apply(catalog, wanted, steps, patience=timeout):
            click.echo(f"{outcome:8}  {step.what}" if ":" not in outcome else f"{step.what} {outcome}")
    click.echo("ready: start the relay with `walrelay run`")
