"""`walrelay dlq show`: a letter whole."""

import json
from pathlib import Path

import click

from walrelay import compose
from walrelay.cli.dlq.forms import whole
from walrelay.cli.options import config_option
from walrelay.config import load
from walrelay.dead_letter import UNDECODABLE
from walrelay.dead_letters import DeadLetterFilter, DeadLetterTable
from walrelay.errors import Fatal
from walrelay.postgres.catalog import Catalog


@click.command()
@config_option
@click.argument("id_", metavar="ID")
@click.option(
    "--value", "only_value", is_flag=True, help="Only the message's value, or what could not be read, byte for byte."
)
def show(config_path: Path, id_: str, only_value: bool) -> None:
    """Show dead letters with their record and message.

    ID is the letter's number, or the id of the record.

    \b
    Example:
      walrelay dlq show 17
      walrelay dlq show 17 --value | jq
    """
    wiring = compose.wiring(load(config_path))
    with Catalog(wiring.dsn) as catalog:
        table = DeadLetterTable(catalog, wiring.slot)
        ids = table.find(DeadLetterFilter(id=id_))
        if not ids:
            raise Fatal(f"there is no dead letter {id_!r}", hint="`walrelay dlq list` has those that there are.")
        for stored in table.letters(ids):
            if only_value:
                message, raw = stored.letter.message, stored.letter.raw
                click.echo((message.value if message else raw) or b"")
                continue
            click.echo(json.dumps(whole(stored), indent=2, ensure_ascii=False))
            if stored.letter.status in ("waiting", "blocked"):
                if stored.letter.error == UNDECODABLE:
                    click.echo("it cannot be published: its writer may emit another one that can be read", err=True)
                else:
                    click.echo(f"to publish it: walrelay dlq replay --id {stored.id}", err=True)
                click.echo(f"to give it up: walrelay dlq discard --id {stored.id} --reason '...'", err=True)
