"""`walrelay resume`: ends a pause."""

from threading import Event

import click

from walrelay.cli.chosen import Chosen, named_relay, one_relay
from walrelay.cli.remote import RemoteApi, api_option
from walrelay.errors import Fatal
from walrelay.operations.pausing import Resumption
from walrelay.operations.pausing import resume as resume_relay
from walrelay.postgres.catalog import Catalog


@click.command()
@one_relay
@api_option
@click.argument("name", required=False, default="")
def resume(relay: Chosen, name: str, api: str) -> None:
    """Resume a relay that was paused.

    It goes on where it stopped. The command waits until the leader has reported that, for ten seconds at most.

    NAME is the relay's in the settings, or its slot; `--relay NAME` does the same. A file of one relay needs neither.

    \b
    Example:
      walrelay resume orders
    """
    if api:
        remote = RemoteApi(api)
        found, path = remote.relay(name or relay.name)
        answer = remote.post(f"{path}/resume", {})
        resumed = Resumption(answer["was_paused"], answer.get("led", True), answer.get("disobeyed") or "")
    else:
        found, contact = named_relay(relay, name)
        with Catalog(contact.dsn) as catalog:
            resumed = resume_relay(contact, catalog, found, Event())
    if not resumed.was_paused:
        click.echo(f"{found} was not paused")
    else:
        click.echo(f"{found} is asked to resume" if resumed.disobeyed else f"{found} is resumed")
    if resumed.disobeyed:
        raise Fatal(resumed.disobeyed)
    if not resumed.led:
        click.echo("no instance leads it now: one that starts goes on where it stopped")
