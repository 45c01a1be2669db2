"""`walrelay recover`: makes a new slot in place of a lost one, and publishes what may not have been published."""

from collections.abc import Iterator

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.doctor import note_no_events
from walrelay.cli.init import make, publish
from walrelay.cli.options import Moment, ZonedMomentType, waiting
from walrelay.cli.progress import count
from walrelay.operations import recovery, setup
from walrelay.postgres.catalog import Catalog
from walrelay.publish.expiry import ANYWAY, refuse_expired
from walrelay.telemetry import logs


@click.command()
@one_relay
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--since", type=ZonedMomentType(), help="Assume that all committed or written before is published.")
@click.option("--all", "everything", is_flag=True, help="Treat only the messages that are in the topics as published.")
@click.option(
    "--recall",
    type=click.IntRange(min=0),
    default=50_000,
    show_default=True,
    help="Messages to read back from each partition.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    help="Also read this topic, to which earlier rules sent rows: what it has is published. May be given repeatedly.",
)
@click.option(ANYWAY, "even_expired", is_flag=True, help="Also to topics that delete messages of that age at once.")
@click.option("--replace", is_flag=True, help="Drop the slot even if it can be read.")
@click.option("--timeout", type=waiting, default=30.0, show_default=True, help="Seconds to wait for open transactions.")
@click.pass_context
def recover(
    ctx: click.Context,
    relay: Chosen,
    dry_run: bool,
    yes: bool,
    since: Moment | None,
    everything: bool,
    recall: int,
    topics: tuple[str, ...],
    even_expired: bool,
    replace: bool,
    timeout: float,
) -> None:
    """Replace a lost slot and publish what it had not delivered.

    Use it after a slot was dropped, invalidated, or lost by a failover. It first prints what it found and what it will
    do. Rows that are published twice keep their ids. After an interruption, run it again: it goes on where it stopped.

    \b
    Example:
      walrelay recover --dry-run
      walrelay recover
      walrelay recover --since '2026-11-21 09:58Z'
    """
    if since is not None and everything:
        raise click.UsageError("--since and --all exclude each other.")
    settings = relay.settings()
    logs.configure(settings.log.format, settings.log.level)
    wiring = compose.wiring(settings)
    request = recovery.RecoveryRequest(since and since.at.isoformat(), everything, recall, replace, topics)
    plan = recovery.plan_recovery(wiring, request)
    click.echo(_told(plan))
    with Catalog(wiring.dsn) as catalog:
        note_no_events(catalog, wiring)
    if not even_expired:
        refuse_expired(plan.expired)
    if dry_run:
        return
    if not yes:
        click.confirm("Make a new slot and publish these rows?", abort=True, err=True)
    with Catalog(wiring.dsn) as catalog:
        make(catalog, wiring, setup.surroundings(catalog, wiring), timeout)
    if not publish(wiring, timeout, plan.scope, plan.known, even_expired=even_expired):
        click.echo("stopped: run `walrelay recover` again to go on from here", err=True)
        ctx.exit(1)
    if not plan.removed.sure:
        click.secho(
            "warning: rows may have been deleted before they were published (see `maybe lost` above)",
            fg="yellow",
            err=True,
        )
    click.echo("ready: start the relay with `walrelay run`")


def _told(plan: recovery.Recovery) -> str:
    lines = [("slot", plan.lost)]
    lines += [("published", each) for each in plan.published]
    span = f", from {plan.oldest} to {plan.newest} UTC" if plan.oldest else ""
    lines.append(("to publish", count(plan.rows, "row") + span))
    if plan.settled.partly:
        lines.append(("", f"of {plan.settled.partly} of them only the messages that their topics do not have"))
    if letters := plan.settled.letters:
        statuses = ", ".join(f"{number} {status}" for status, number in sorted(letters.items()))
        lines.append(("left out", f"{count(letters.total(), 'dead letter')} ({statuses}): walrelay dlq list"))
    lines += [("duplicates", each) for each in _duplicates(plan)]
    lines += [("vanishes", str(each)) for each in plan.expired]
    lines += [("not lost" if plan.removed.sure else "maybe lost", each) for each in plan.removed.lines]
    lines += [("lost", plan.beyond)] if plan.beyond else []
    return "\n".join(f"{name:12}{value}" for name, value in lines)


def _duplicates(plan: recovery.Recovery) -> Iterator[str]:
    """Which rows may come again, by the topics that were read; of others nothing is known."""
    if plan.repeats:
        yield f"up to {plan.repeats} of them may have been published before: they come again with their ids"
    for topic, rows in sorted(plan.settled.elsewhere.items()):
        yield (
            f"{count(rows, 'row')} of them have a message or a dead letter of {topic}, to which the rules of now do not"
            f" send them: --topic {topic} leaves them out"
        )
    if not plan.rows:
        yield "none: there is nothing to publish"
    elif not plan.repeats:
        unknown = "unknown whether other topics have them, to which earlier rules sent them (--topic reads one)"
        yield f"none in the topics of the rules of now; of {count(plan.rows, 'row')} it is {unknown}"
