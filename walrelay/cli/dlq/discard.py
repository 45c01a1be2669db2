"""`walrelay dlq discard`: gives letters up, on the record."""

from pathlib import Path
from typing import Any

import click

from walrelay import compose
from walrelay.cli.dlq.filters import filters, wanted
from walrelay.cli.options import config_option, operator
from walrelay.cli.wording import count
from walrelay.config import load
from walrelay.errors import Fatal
from walrelay.postgres.catalog import Catalog

_OPEN = ("waiting", "blocked")
_AT_A_TIME = 1000


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
    settings = load(config_path)
    with Catalog(compose.dsn(settings)) as catalog:
        table = compose.letterbox(settings, catalog)
        found = wanted(**given, otherwise=_OPEN)
        ids = table.find(found._replace(statuses=[each for each in found.statuses or () if each in _OPEN]))
        if not ids and given["id_"] is not None:
            raise Fatal(f"there is no open dead letter {given['id_']!r}", hint="`walrelay dlq list` has those.")
        if dry_run or not ids:
            click.echo(count(len(ids), "open dead letter") + (" would be discarded" if ids else ""))
            return
        if not yes:
            click.confirm(
                f"Discard {count(len(ids), 'dead letter')}? They will not be published.", abort=True, err=True
            )
        done = sum(
            table.discard(ids[start : start + _AT_A_TIME], operator(), reason)
            for start in range(0, len(ids), _AT_A_TIME)
        )
    click.echo(f"{done} discarded")
