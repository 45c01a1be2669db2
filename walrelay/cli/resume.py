"""`walrelay resume`: ends a pause."""

import click

from walrelay.cli.chosen import Chosen, named_relay, one_relay
from walrelay.cli.remote import RemoteApi, api_option
from walrelay.operations.pausing import resume as resume_relay
from walrelay.postgres.catalog import Catalog


@click.command()
@one_relay
@api_option
@click.argument("name", required=False, default="")
def resume(relay: Chosen, name: str, api: str) -> None:
    """Resume a relay that was paused.

    It goes on where it stopped.

    NAME is the relay's in the settings, or its slot; `--relay NAME` does the same. A file of one relay needs neither.

    \b
    Example:
      walrelay resume orders
    """
    if api:
        remote = RemoteApi(api)
        found, path = remote.relay(name or relay.name)
        was_paused = remote.post(f"{path}/resume", {})["was_paused"]
    else:
        found, contact = named_relay(relay, name)
        with Catalog(contact.dsn) as catalog:
            was_paused = resume_relay(catalog, contact.slot, found)
    click.echo(f"{found} is resumed" if was_paused else f"{found} was not paused")
