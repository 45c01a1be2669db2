"""`walrelay skip`: names a row that cannot be read, so that the relay skips it."""

from typing import Any

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.options import operator
from walrelay.dead_letter import shown
from walrelay.dead_letters.skipping import Skipping
from walrelay.model import RecordPosition
from walrelay.postgres.catalog import Catalog

_SHOWN = 2000  # characters of a value


class _Position(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic since click 8.4
    name = "LSN[:ORDINAL]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> RecordPosition:
        try:
            return RecordPosition.parse(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a position: write 16/B374D848:0, as the relay does", param, ctx)


@click.command()
@one_relay
@click.option(
    "--position",
    type=_Position(),
    required=True,
    help="The position of the row; without :ORDINAL that of its transaction.",
)
@click.option("--reason", default="", help="The reason; it is stored with the skipped row.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def skip(relay: Chosen, position: RecordPosition, reason: str, yes: bool) -> None:
    """Let the relay skip what cannot be read.

    The command names one row or logical message. The relay must not be running; the unreadable row has already stopped
    it.

    It prints what the row holds, asks, and keeps it in walrelay.dead_letters. Only what cannot be read is skipped, and
    only at the named position; the readable rows of a transaction are published. For what can be read but not
    published there are the settings under refusals, and `walrelay dlq`.

    \b
    Example:
      walrelay skip --position 16/B374D848:0
      walrelay skip --position 16/B374D848 --reason 'column dropped by migration 42' --yes
    """
    wiring = compose.wiring(relay.settings())
    with Catalog(wiring.dsn) as catalog:
        skipping = Skipping(wiring, catalog, position, _note)
        found = skipping.rows
        for row in found:
            click.echo(row.letter.reason)
            click.echo("".join(f"  {name:16}  {_value(value)}\n" for name, value in row.columns), nl=False)
        if not yes:
            rows = "this row" if len(found) == 1 else f"these {len(found)} rows"
            click.confirm(f"Skip {rows}? It will not be published.", abort=True, err=True)
        skipping.skip(reason, operator())
    click.echo(f"{len(found)} will be skipped: start the relay again with `walrelay run`")


def _value(value: bytes | None) -> str:
    text = shown(value) if isinstance(value, bytes) else None
    whole = "NULL" if text is None else text if isinstance(text, str) else f"base64 {text['base64']}"
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}... ({len(whole)} characters)"


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
