"""`walrelay drain`: lets a relay publish all that was committed, and pauses it then."""

from typing import Any

import click

from walrelay.cli.chosen import Chosen, named_relay, one_relay
from walrelay.cli.ending import signalled
from walrelay.cli.options import operator, waiting
from walrelay.cli.progress import Bars
from walrelay.cli.remote import RemoteApi, api_option
from walrelay.errors import Fatal
from walrelay.operations.pausing import Drain, DrainRequest
from walrelay.postgres.catalog import Catalog


@click.command()
@one_relay
@api_option
@click.argument("name", required=False, default="")
@click.option("--reason", default="", help="Why; everybody sees it who asks for the relay's state.")
@click.option("--no-pause", is_flag=True, help="Only wait until all of it is published.")
@click.option("--timeout", type=waiting, default=300.0, show_default=True, help="Seconds to wait for that.")
@click.pass_context
def drain(ctx: click.Context, relay: Chosen, name: str, api: str, reason: str, no_pause: bool, timeout: float) -> None:
    """Publish what was committed until now, then pause.

    For the time before its broker, its server or a consumer goes away: what was committed before the command is
    published and confirmed, and the relay is paused until it is resumed. What is committed meanwhile may be published
    or not.

    NAME is the relay's in the settings, or its slot; `--relay NAME` does the same. A file of one relay needs neither.

    \b
    Example:
      walrelay drain orders --reason 'the broker is upgraded'
      walrelay drain orders --no-pause --timeout 60
    """
    if api:
        asked = {"reason": reason, "then_pause": not no_pause, "timeout_seconds": timeout}
        ctx.exit(_remotely(RemoteApi(api), name or relay.name, asked))
    found, contact = named_relay(relay, name)
    stop, done = signalled(), 0
    request = DrainRequest(operator(), reason, not no_pause, timeout)
    with Catalog(contact.dsn) as catalog:
        draining = Drain(contact, catalog, found, request)
        with Bars() as bars:
            for confirmed in draining.steps(stop):
                done += confirmed
                bars.at(f"bytes of WAL up to {draining.target}", done, draining.distance)
    if done < draining.distance:
        click.echo("stopped before the end: it goes on", err=True)
        ctx.exit(1)
    click.echo(f"{found} has published everything up to {draining.target}")
    if draining.disobeyed:
        raise Fatal(draining.disobeyed)
    if draining.pause is not None:
        click.echo(f"{found} is paused {draining.pause}\nwalrelay resume {found}  # ends it")


def _remotely(api: RemoteApi, name: str, asked: dict[str, Any]) -> int:
    relay, stop = api.relay(name), signalled()
    with Bars() as bars:
        for job in api.job(relay, api.post(f"{relay.path}/drain", asked), stop):
            bars.at("bytes of WAL", job["counts"].get("bytes", 0), job["total"])
            if job["state"] != "running":
                break
        else:
            click.echo("stopped before the end: it goes on", err=True)
            return 1
    for note in job["notes"] or []:
        click.echo(f"{relay.name} is {note}")
    return 0 if job["state"] == "done" else 1
