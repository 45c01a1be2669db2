"""`walrelay dlq export`: letters whole, as JSON lines."""

import json
from pathlib import Path
from typing import Any

import click

from walrelay import compose
from walrelay.cli.dlq.filters import filters, wanted
from walrelay.cli.dlq.forms import whole
from walrelay.cli.options import config_option
from walrelay.cli.progress import progress
from walrelay.cli.wording import count
from walrelay.config import load
from walrelay.dead_letters import DeadLetterTable
from walrelay.postgres.catalog import Catalog


@click.command()
@config_option
@filters
@click.option("-o", "--output", type=click.File("w", atomic=True), default="-", help="A file instead of stdout.")
def export(config_path: Path, output: Any, **given: Any) -> None:
    """Write dead letters as JSON lines, whole. They stay where they are.

    What is not UTF-8 is {"base64": ...}. message has the form in which the sink stdout prints messages.

    \b
    Example:
      walrelay dlq export --status waiting > waiting.jsonl
    """
    wiring = compose.wiring(load(config_path))
    with Catalog(wiring.dsn) as catalog:
        table = DeadLetterTable(catalog, wiring.slot)
        ids = table.find(wanted(**given))
        for stored in progress(table.letters(ids), len(ids), "exporting"):
            output.write(json.dumps(whole(stored), ensure_ascii=False) + "\n")
    click.echo(count(len(ids), "dead letter"), err=True)
