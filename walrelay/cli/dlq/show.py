"""`walrelay dlq show`: a letter whole."""

import json
from pathlib import Path

import click

from walrelay import compose
from walrelay.cli.dlq.forms import whole
from walrelay.cli.options import config_option
from walrelay.config import load
from walrelay.errors import Fatal
from walrelay.source.catalog import Catalog
from walrelay.source.dead_letters import Wanted


@click.command()
@config_option
@click.argument("id_", metavar="ID")
def show(config_path: Path, id_: str) -> None:
    """Show dead letters with their record and message: ID is the letter's number, or the id of the record.

    \b
    Example:
      walrelay dlq show 17
      walrelay dlq show 17 | jq -r .message.value
    """
    settings = load(config_path)
    with Catalog(compose.dsn(settings)) as catalog:
        box = compose.letterbox(settings, catalog)
        ids = box.find(Wanted(id=id_))
        if not ids:
            raise Fatal(f"there is no dead letter {id_!r}", hint="`walrelay dlq list` has those that there are.")
        for kept in box.letters(ids):
            click.echo(json.dumps(whole(kept), indent=2, ensure_ascii=False))
