"""`walrelay relays`: the relays of the file's databases, and what their leaders report."""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from walrelay.cli import ending
from walrelay.cli.chosen import several_option
from walrelay.cli.options import config_option
from walrelay.cli.remote import RemoteApi, api_option, remote_relays
from walrelay.cli.streams import printable
from walrelay.config import load_contacts
from walrelay.operations.overview import RelayGlance, glance
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.sizes import size


@click.command()
@config_option
@several_option
@api_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout for each relay.")
@click.pass_context
def relays(ctx: click.Context, config_path: Path, relay_names: tuple[str, ...], api: str, as_json: bool) -> None:
    """List the relays: who leads, state, lag, pauses.

    All of it comes from PostgreSQL, so no process has to run. Relays of other files in the same databases are listed
    too, unless some are named.

    \b
    Example:
      walrelay relays
      walrelay relays --json | jq 'select(.paused)'
      walrelay relays --api https://walrelay.internal:8642
    """
    if api:
        _show([each.seen for each in remote_relays(RemoteApi(api), relay_names)], as_json=as_json)
        return
    contacts = load_contacts(config_path, relay_names)
    databases: dict[str, dict[str, str]] = {}
    for name, contact in contacts.usable.items():
        databases.setdefault(contact.dsn, {})[contact.slot] = name or contact.slot
    found, codes = list[RelayGlance](), [ending.report(each) for each in contacts.unusable.values()]
    for dsn, slots in databases.items():
        try:
            with Catalog(dsn) as catalog:
                found += [each for each in glance(catalog, slots) if not relay_names or each.slot in slots]
        except Exception as error:  # one database keeps no other from being shown
            codes.append(ending.report(error, f"{', '.join(slots.values())}: "))
    _show(found, as_json=as_json)
    ctx.exit(max([ending.DONE, *codes]))


def _show(found: Sequence[RelayGlance], *, as_json: bool) -> None:
    if as_json:
        for each in found:
            click.echo(json.dumps(each.as_json()))
    elif found:
        click.echo(_table(found), nl=False)


_WIDTH = 120  # characters of a reason; `--json` has the whole
_HEAD = ("name", "state", "leader", "position", "lag", "retained WAL", "left until lost", "paused", "why")


def _table(found: Sequence[RelayGlance]) -> str:
    rows = [_HEAD, *map(_row, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _row(each: RelayGlance) -> tuple[str, ...]:
    lag = _size(each.lag_bytes) + (f", {each.lag_seconds:.1f} s" if each.lag_seconds else "")
    paused = "no"
    if each.paused:
        paused = f"by {each.paused_by}" + (f": {each.pause_reason}" if each.pause_reason else "")
        paused += f", until {each.paused_until}" if each.paused_until else ""
        paused += f", to {size(each.pause_limit)}, then {each.at_pause_limit}" if each.pause_limit else ""
    where = each.instance or "nobody", each.position or "unknown"
    left = "no limit" if each.safe_bytes is None else size(each.safe_bytes)
    told = each.name, each.state, *where, lag, _size(each.retained_bytes), left, " ".join(paused.split()), _why(each)
    return tuple(map(printable, told))  # whoever may write the table names them


def _why(each: RelayGlance) -> str:
    """Why the relay does not stream; a pause has a column of its own."""
    if each.level == "ok" or each.why.startswith("paused "):
        return ""
    why = " ".join(each.why.split())
    return why if len(why) <= _WIDTH else f"{why[: _WIDTH - 1]}…"


def _size(count: int | None) -> str:
    return "unknown" if count is None else size(count)
