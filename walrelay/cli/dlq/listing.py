"""`walrelay dlq list`: one line a letter."""

import json
from pathlib import Path
from typing import Any

import click

from walrelay import compose
from walrelay.cli.dlq.filters import filters, wanted
from walrelay.cli.dlq.forms import summary
from walrelay.cli.options import config_option
from walrelay.config import load
from walrelay.source.catalog import Catalog
from walrelay.source.dead_letters import Kept

_HEAD = ("letter", "position", "status", "error", "topic", "key", "id", "attempts", "last met")
_LINE = "{:>7}  {:<20} {:<9}  {:<16}  {:<28} {:<16} {:<36} {:>8}  {}"


@click.command("list")
@config_option
@filters
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def listing(config_path: Path, as_json: bool, **given: Any) -> None:
    """List dead letters in the order of their positions, all of them unless filters say otherwise.

    \b
    Example:
      walrelay dlq list --status waiting
      walrelay dlq list --error too_large --since 2026-11-21 --json | jq -r .id
    """
    settings = load(config_path)
    with Catalog(compose.dsn(settings)) as catalog:
        box = compose.letterbox(settings, catalog)
        ids = box.find(wanted(**given))
        if ids and not as_json:
            click.echo(_LINE.format(*_HEAD))
        for kept in box.letters(ids):
            click.echo(json.dumps(summary(kept)) if as_json else _line(kept))
    if not ids:
        click.echo("no dead letters", err=True)


def _line(kept: Kept) -> str:
    letter = kept.letter
    key = "" if letter.key is None else letter.key.decode("utf-8", "replace")
    last = f"{kept.last_at.astimezone():%Y-%m-%d %H:%M:%S}"
    place = letter.place
    return _LINE.format(
        *(kept.id, place.position, letter.status, letter.error, letter.topic or "", key, place.record_id),
        *(letter.attempts, last),
    )
