"""`walrelay dlq list`: one line a letter."""

import json
from pathlib import Path
from typing import Any

import click

from walrelay import compose
from walrelay.cli.dlq.filters import filters, wanted
from walrelay.cli.dlq.forms import summary
from walrelay.cli.options import config_option
from walrelay.cli.wording import count
from walrelay.config import load
from walrelay.dead_letters import DeadLetterTable, StoredDeadLetter
from walrelay.postgres.catalog import Catalog

_HEAD = ("letter", "position", "status", "error", "last met")
_LINE = "{:>7}  {:<20} {:<9}  {:<16}  {}"
_MORE = "         {} for topic {}, key {}, refused {}: {}"
_LONGEST = 200  # characters of a reason


@click.command("list")
@config_option
@filters
@click.option("--all", "everything", is_flag=True, help="Also those that are closed: replayed, discarded, skipped.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def listing(config_path: Path, everything: bool, as_json: bool, **given: Any) -> None:
    """List dead letters in the order of their positions.

    Those that are open, unless --all or --status say otherwise.

    \b
    Example:
      walrelay dlq list --status waiting
      walrelay dlq list --error too_large --since 2026-11-21 --json | jq -r .id
    """
    wiring = compose.wiring(load(config_path))
    with Catalog(wiring.dsn) as catalog:
        table = DeadLetterTable(catalog, wiring.slot)
        ids = table.find(wanted(**given) if everything else wanted(**given).open)
        if ids and not as_json:
            click.echo(_LINE.format(*_HEAD))
        for stored in table.letters(ids):
            click.echo(json.dumps(summary(stored)) if as_json else _lines(stored))
    if not ids:
        click.echo("no dead letters" if everything else "no open dead letters; --all lists the closed ones", err=True)


def _lines(stored: StoredDeadLetter) -> str:
    """Two lines, of which the second may be longer than a terminal is wide."""
    letter, origin = stored.letter, stored.letter.origin
    key = "none" if letter.key is None else letter.key.decode("utf-8", "replace")
    last = f"{stored.last_at.astimezone():%Y-%m-%d %H:%M:%S}"
    reason = " ".join(letter.reason.split())
    reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}..."
    first = _LINE.format(stored.id, origin.position, letter.status, letter.error, last)
    often = count(letter.attempts, "time")
    return f"{first}\n{_MORE.format(origin.record_id or 'no id', letter.topic or 'none', key, often, reason)}"
