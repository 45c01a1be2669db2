"""`walrelay dlq discard`: gives letters up, on the record."""

from pathlib import Path
from typing import Any

import click

from walrelay import compose
from walrelay.cli.dlq.filters import filters, wanted
from walrelay.cli.options import config_option, operator
from walrelay.cli.wording import count
from walrelay.config import load
from walrelay.dead_letters import DeadLetterTable
from walrelay.errors import Fatal
from walrelay.postgres.catalog import Catalog


@click.command()
@config_option
@filters
@click.option("--reason", required=True, help="Kept with the letters, beside your name and the time.")
@click.option("--dry-run", is_flag=True, help="Say how many there are, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(config_path: Path, reason: str, dry_run: bool, yes: bool, **given: Any) -> None:
    """Give up dead letters that are open. They stay in the table as discarded, with who, when and why.

    \b
    Example:
      walrelay dlq discard --id 17 --reason 'test data'
      walrelay dlq discard --topic 'outbox.event.audit*' --until 2026-11-01 --reason 'retention is over' --yes
    """
    wiring = compose.wiring(load(config_path))
    with Catalog(wiring.dsn) as catalog:
        table = DeadLetterTable(catalog, wiring.slot)
        ids = table.find_to_discard(wanted(**given))
        if not ids and given["id_"] is not None:
            raise Fatal(f"there is no open dead letter {given['id_']!r}", hint="`walrelay dlq list` has those.")
        if dry_run or not ids:
            click.echo(count(len(ids), "open dead letter") + (" would be discarded" if ids else ""))
            return
        if not yes:
            click.confirm(
                f"Discard {count(len(ids), 'dead letter')}? They will not be published.", abort=True, err=True
            )
        done = table.discard(ids, operator(), reason)
    click.echo(f"{done} discarded")
