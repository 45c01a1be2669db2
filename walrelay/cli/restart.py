"""`walrelay restart`: lets a relay begin anew while its process goes on."""

import click

from walrelay.cli.chosen import Chosen, named_relay, one_relay
from walrelay.cli.ending import signalled
from walrelay.cli.options import operator
from walrelay.cli.remote import RemoteApi, api_option
from walrelay.operations.pausing import restart as restart_relay
from walrelay.postgres.catalog import Catalog


@click.command()
@one_relay
@api_option
@click.argument("name", required=False, default="")
@click.pass_context
def restart(ctx: click.Context, relay: Chosen, name: str, api: str) -> None:
    """Let a relay begin anew, without a new process.

    It settles what is under way, closes its sink, and begins as at its start: with a new connection to the broker, and
    the catalog as it is now. Settings are read by a new process only. The lead stays where it is.

    NAME is the relay's in the settings, or its slot; `--relay NAME` does the same. A file of one relay needs neither.

    \b
    Example:
      walrelay restart orders
    """
    if api:
        ctx.exit(_remotely(RemoteApi(api), name or relay.name))
    found, contact = named_relay(relay, name)
    stop, state = signalled(), ""
    with Catalog(contact.dsn) as catalog:
        for step in restart_relay(contact, catalog, found, operator(), stop):
            state = step.state
            why = f": {step.error}" if step.error else ""
            click.echo(f"{found} is {state} after {step.seconds:.1f} s{why}")
    if state != "streaming":
        click.echo("stopped: it goes on" if stop.is_set() else "walrelay relays  # says more", err=True)
        ctx.exit(1)


def _remotely(api: RemoteApi, name: str) -> int:
    relay, stop, told = api.relay(name), signalled(), 0
    for job in api.job(relay, api.post(f"{relay.path}/restart", {}), stop):
        for note in (job["notes"] or [])[told:]:
            click.echo(f"{relay.name} is {note}")
        told = len(job["notes"] or [])
        if job["state"] != "running":
            return 0 if job["state"] == "done" else 1
    click.echo("stopped: it goes on", err=True)
    return 1
