"""`walrelay drop`: removes the slot and the publication, never the table."""

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.operations.drop import drop_all
from walrelay.postgres.catalog import Catalog


@click.command()
@one_relay
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(relay: Chosen, yes: bool) -> None:
    """Remove the slot and the publication. The outbox table and its rows stay.

    A later slot does not publish events that are committed but not yet confirmed.

    \b
    Example:
      walrelay drop --yes
    """
    wiring = compose.wiring(relay.settings())
    slot, publication = wiring.slot, wiring.publication
    if not yes:
        what = f"slot {slot}" + (f" and publication {publication}" if publication else "")
        click.confirm(f"Remove {what}? Events that are not published yet will not be.", abort=True, err=True)
    with Catalog(wiring.dsn) as catalog:
        for name, outcome in drop_all(catalog, slot, publication):
            click.echo(f"{outcome:13}  {name}")
