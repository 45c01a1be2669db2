"""`walrelay replay`: publishes rows of the table again."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.doctor import note_no_events
from walrelay.cli.ending import signalled
from walrelay.cli.options import Moment, MomentType, PositionsType
from walrelay.cli.progress import BarObserver, count
from walrelay.errors import Fatal
from walrelay.operations import replay as operation
from walrelay.operations.replay import ReplayPlan, ReplayRequest
from walrelay.postgres.catalog import Catalog
from walrelay.publish.expiry import ANYWAY, refuse_expired
from walrelay.telemetry import logs

_NAMED = 10  # ids that are named one by one
_ASKS_ABOVE = 1000  # rows, on a terminal


@click.command()
@one_relay
@click.option(
    "--from", "since", type=MomentType(), help="Rows committed at or after this time; 2h means that long ago."
)
@click.option("--to", "until", type=MomentType(), help="Rows committed before this time.")
@click.option("--aggregate", "aggregates", metavar="TYPE[:ID]", multiple=True, help="May be given repeatedly.")
@click.option("--type", "types", metavar="TYPE", multiple=True, help="The event's type. May be given repeatedly.")
@click.option("--tenant", "tenants", metavar="ID", multiple=True, help="The tenant. May be given repeatedly.")
@click.option("--id", "ids", metavar="ID", multiple=True, help="The event's id. May be given repeatedly.")
@click.option(
    "--position",
    "positions",
    type=PositionsType(),
    help="Rows whose messages have a position from A to B; reads the topics to find them.",
)
@click.option("--all", "everything", is_flag=True, help="Every row of the table.")
@click.option("--topic", help="Publish to this topic instead of those of the routing rules.")
@click.option(ANYWAY, "even_expired", is_flag=True, help="Also to topics that delete messages of that age at once.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Events a second, evenly. Default: no limit.")
@click.option("--dry-run", is_flag=True, help="Say what would be published, and change nothing.")
@click.option("--yes", is_flag=True, help=f"Do not ask; on a terminal it asks above {_ASKS_ABOVE} rows.")
@click.option("--name", help="A name by which the replay can be continued. Default: made from the filters.")
@click.option(
    "--restart", is_flag=True, help="Start over, even if an earlier replay with the same filters was interrupted."
)
@click.option("--list", "listing", is_flag=True, help="List interrupted replays.")
@click.option("--drop", "dropped", metavar="NAME", help="Forget an interrupted replay.")
@click.pass_context
def replay(
    ctx: click.Context,
    relay: Chosen,
    since: Moment | None,
    until: Moment | None,
    aggregates: tuple[str, ...],
    types: tuple[str, ...],
    tenants: tuple[str, ...],
    ids: tuple[str, ...],
    positions: str | None,
    everything: bool,
    topic: str | None,
    even_expired: bool,
    rate: float | None,
    dry_run: bool,
    yes: bool,
    name: str | None,
    restart: bool,
    listing: bool,
    dropped: str | None,
) -> None:
    """Publish rows of the outbox table again.

    They keep their ids, and get a header `replayed`.

    All filters have to match. Rows that the relay may not have confirmed, and dead letters, are left out. The relay may
    be running. After an interruption the same command goes on where it stopped. Exit code 1 if no row matches, or an
    id has no row.

    \b
    Example:
      walrelay replay --from 2h --type OrderPlaced --dry-run
      walrelay replay --aggregate order:42 --topic billing.rebuild --rate 200
      walrelay replay --position 16/B374D848:0..16/B374E0A0
    """
    settings = relay.settings()
    logs.configure(settings.log.format, settings.log.level)
    wiring = compose.wiring(settings)
    if listing or dropped is not None:
        with Catalog(wiring.dsn) as catalog:
            told = _listed(catalog, wiring.slot) if dropped is None else [_drop(catalog, wiring.slot, dropped)]
            click.echo("\n".join(told))
        return
    begin, end = (moment.typed if moment else None for moment in (since, until))
    request = ReplayRequest(begin, end, aggregates, types, ids, positions, everything, topic, tenants)
    if not request.selects and name is None:
        raise click.UsageError("Which rows? Give a filter, as in --from 2h --type OrderPlaced, or --all.")
    first, last = (moment.at.isoformat() if moment else None for moment in (since, until))
    stop = signalled()
    plan = operation.plan_replay(wiring, request, stop.wait, since=first, until=last, name=name, restart=restart)
    click.echo("\n".join(_plan(plan)))
    with Catalog(wiring.dsn) as catalog:
        note_no_events(catalog, wiring)
    rows = plan.rows
    nothing = not rows and not plan.resumed
    if nothing:
        left_out = "nothing to publish: every matching row is left out (see above)"
        click.echo(left_out if plan.left_out else "no row matches", err=True)
    if not even_expired:
        refuse_expired(plan.expired)
    if dry_run or nothing:
        ctx.exit(1 if plan.not_found or nothing else 0)
    if rows > _ASKS_ABOVE and not yes and sys.stdin.isatty():
        click.confirm(f"Publish {count(rows, 'row')} again?", abort=True, err=True)
    with BarObserver() as observer:
        done = operation.run_replay(stop, wiring, plan, rate, observer, even_expired=even_expired)
    click.echo(f"published {count(observer.rows - plan.dropped * done, 'row')} again")
    gone = rows + plan.dropped - observer.rows
    if done and gone > 0:
        click.echo(f"note: a clean-up deleted {count(gone, 'row')} before they were replayed", err=True)
    if not done:
        click.echo(
            f"stopped: run the same command again, or `walrelay replay --name {plan.name}`: it goes on", err=True
        )
        ctx.exit(1)
    ctx.exit(1 if plan.not_found else 0)


def _plan(plan: ReplayPlan) -> Iterator[str]:
    """What is going to be published, and what is not."""
    replaying = plan.replaying
    state = f"goes on: {count(replaying.published, 'row was', 'rows were')} published before" if plan.resumed else "new"
    yield _line("replay", f"{plan.name} ({state})")
    if replaying.since or replaying.until:
        yield _line("period", _period(replaying.since, replaying.until))
    messages = f", {count(plan.messages, 'message')}" if plan.messages != plan.rows else ""
    yield _line("to publish", count(plan.rows, "row") + messages)
    if plan.groups:
        width = max(len(_topic(group.topic)) for group in plan.groups)
        for group in plan.groups:
            span = f"{_at(group.first)} to {_at(group.last)}" if group.first is not None else "no time known"
            yield _line("", f"{_topic(group.topic):{width}}  {group.type:24} {group.rows:>9}  {span}")
    for each in plan.left_out:
        yield _line("left out", each)
    yield from (_line("vanishes", str(each)) for each in plan.expired)
    for each in plan.unknown[:_NAMED]:
        yield _line("not found", each)
    if len(plan.not_found) > _NAMED:
        yield _line("not found", f"and {len(plan.not_found) - _NAMED} more")


def _line(name: str, value: str) -> str:
    return f"{name:12}{value}"


def _topic(topic: str) -> str:
    return topic or "(no rule gives a topic)"


def _period(since: str | None, until: str | None) -> str:
    begin, end = (each and f"{datetime.fromisoformat(each):%Y-%m-%d %H:%M:%S} UTC" for each in (since, until))
    return " ".join([*([f"from {begin}"] if begin else []), *([f"to before {end}"] if end else [])])


def _at(microseconds: int | None) -> str:
    return "-" if microseconds is None else f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%d %H:%M:%S}"


def _listed(catalog: Catalog, slot: str) -> Iterator[str]:
    found = list(operation.unfinished_replays(catalog, slot))
    if not found:
        yield "no replay was interrupted"
    for each in found:
        rows = count(each.replaying.published, "row")
        yield f"{each.name:12} begun {each.begun_at}, {rows} published, last {each.changed_at}"
        yield _line("", _filters(each.replaying.asked))


def _filters(asked: ReplayRequest) -> str:
    """The filters as the command line takes them."""
    single = {"--from": asked.since, "--to": asked.until, "--position": asked.positions, "--topic": asked.topic}
    several = {"--aggregate": asked.aggregates, "--type": asked.types, "--tenant": asked.tenants, "--id": asked.ids}
    words = ["--all"] if asked.everything else []
    words += [f"{option} {value}" for option, value in single.items() if value is not None]
    words += [f"{option} {value}" for option, values in several.items() for value in values[:_NAMED]]
    return " ".join(words)


def _drop(catalog: Catalog, slot: str, name: str) -> str:
    if not operation.drop_replay(catalog, slot, name):
        raise Fatal(f"there is no replay {name}", hint="`walrelay replay --list` has them.")
    return f"replay {name} is forgotten"
