"""`walrelay init`: makes the table, function, publication and slot that are missing."""

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

from walrelay import compose
from walrelay.cli.adopt import settings_for
from walrelay.cli.chosen import Chosen, each_relay
from walrelay.cli.doctor import note_no_events
from walrelay.cli.ending import signalled
from walrelay.cli.options import waiting
from walrelay.cli.progress import BarObserver, count
from walrelay.dead_letters.elsewhere import letters_elsewhere
from walrelay.errors import Fatal, Retryable
from walrelay.operations import doctor, setup
from walrelay.operations import push_down as pushing
from walrelay.operations.backfill import backfill_until
from walrelay.outcomes import NOTHING_KNOWN, Known
from walrelay.postgres.catalog import Catalog
from walrelay.publish.expiry import ANYWAY
from walrelay.table.backfill_journal import Scope
from walrelay.table.rows import refuse_sql
from walrelay.telemetry import logs
from walrelay.wiring import Wiring, begin_at

_PUBLISHED = ("table", "publication")


def _only_with(other: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """The callback of an option that is refused where the other, which is_eager, is not given."""

    def callback(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if _given(ctx, str(parameter.name)) and not ctx.params[other] and ctx.params["adopt"] is None:
            raise click.UsageError(f"{parameter.opts[0]} has no effect without --{other}")
        return value

    return callback


@click.command()
@each_relay
@click.option("--dry-run", is_flag=True, help="Print the SQL of what is missing, and change nothing.")
@click.option("--timeout", type=waiting, default=30.0, show_default=True, help="Seconds to wait for open transactions.")
@click.option("--backfill", is_flag=True, is_eager=True, help="First publish the rows that are in the table.")
@click.option(
    "--where",
    metavar="SQL",
    default="",
    callback=_only_with("backfill"),
    help="With --backfill: only rows of which this condition holds.",
)
@click.option(
    ANYWAY,
    "even_expired",
    is_flag=True,
    callback=_only_with("backfill"),
    help="With --backfill: also to topics that delete messages of that age at once.",
)
@click.option("--partitioned", is_flag=True, help="Make the outbox with a partition for each day.")
@click.option("--topics", metavar="A,B", default="", is_eager=True, help="Also make these topics at the broker.")
@click.option(
    "--exact",
    is_flag=True,
    callback=_only_with("topics"),
    help="--topics has full topic names, not values to fill into route.topic.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 100_000),
    default=12,
    show_default=True,
    callback=_only_with("topics"),
    help="Partitions of new topics.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 10_000),
    callback=_only_with("topics"),
    help="Replicas of new topics.  [default: the broker's]",
)
@click.option("--push-down", is_flag=True, help="Let PostgreSQL withhold the rows that rules drop (row filter).")
@click.option(
    "--adopt", metavar="TABLE", is_eager=True, help="Print settings for a table that is there, and change nothing."
)
@click.pass_context
def init(
    ctx: click.Context,
    relay: Chosen,
    dry_run: bool,
    timeout: float,
    backfill: bool,
    where: str,
    even_expired: bool,
    partitioned: bool,
    topics: str,
    exact: bool,
    partitions: int,
    replication_factor: int | None,
    push_down: bool,
    adopt: str | None,
) -> None:
    """Make the outbox table, walrelay.emit, publication and slot.

    Running it again is safe: what exists stays as it is, and a lost slot is not replaced; the functions for writers are
    updated to the settings. An interrupted backfill goes on where it stopped. If the outbox has a partition for each
    day (--partitioned), `walrelay cleanup` drops whole days.

    --topics takes aggregate types (or other values for `route.topic`), or whole names of topics: with the default,
    `order` and `outbox.event.order` are the same. With several sinks `eu:order` is for the sink eu alone.

    --push-down makes a row filter of the rules at the top of `routes` that drop (`walrelay docs routing`). The relay
    must not run meanwhile.

    --adopt looks at the outbox of another worker, in the database of the settings file or else of DATABASE_URL.

    \b
    Example:
      walrelay init --dry-run
      walrelay init -c walrelay.yaml
      walrelay init --topics order,invoice
      walrelay init --backfill
      walrelay init --backfill --where 'published = false'
      walrelay init --partitioned
      walrelay init --push-down --dry-run
      walrelay init --adopt messaging.outbox_messages > walrelay.yaml
    """
    if adopt is not None:
        about = ("adopt", "config_path", "relay_names")
        if others := [name for name in ctx.params if name not in about and _given(ctx, name)]:
            raise click.UsageError(f"--adopt changes nothing: --{others[0].replace('_', '-')} has no effect with it")
        click.echo(settings_for(relay, adopt), nl=False)
        return
    if relay.several and (backfill or topics):
        raise click.UsageError(f"Which relay? Name one with --relay for --{'backfill' if backfill else 'topics'}.")
    settings = relay.settings()
    if backfill:
        logs.configure(settings.log.format, settings.log.level)
    wiring = compose.wiring(settings)
    names = wiring.rules.named([name.strip() for name in topics.split(",") if name.strip()], exact=exact)
    making = wiring.sink.make_topics(names, partitions, replication_factor) if names else ()
    with Catalog(wiring.dsn) as catalog:
        doctor.refuse(catalog, wiring, "init", but=doctor.BY_ANOTHER_ROLE if dry_run else ())
        note_no_events(catalog, wiring)
        if where:
            refuse_sql(
                catalog, wiring, f"--where {where!r}", where, "an SQL condition over the columns", "published = false"
            )
        steps = (setup.plan_backfill if backfill else setup.plan)(catalog, wiring, partitioned=partitioned)
        if dry_run:
            click.echo("\n".join(f"-- {step.what}\n{step.sql}" for step in steps if not step.present), nl=False)
            for name in names:
                click.echo(f"-- topic {name}, at the broker")
            if push_down:
                show_filter(catalog, wiring, there=all(step.present for step in steps if step.kind in _PUBLISHED))
            return
        made = make(catalog, wiring, steps[:-1] if backfill else steps, timeout)
        if "slot" in made:
            _begin(wiring, catalog)
        doctor.refuse(catalog, wiring, "init")  # the new objects may not suit the settings either
        for finding in letters_elsewhere(catalog, wiring.slot, wiring.table):
            click.echo(f"note: {finding.detail}: {finding.fix}", err=True)
        if push_down:
            make_filter(catalog, wiring)
    made_there = 0
    for made_there, (name, created) in enumerate(making, 1):  # noqa: B007
        click.echo(f"{'created' if created else 'present':8}  {wiring.sink.made_as(name)} {name}")
    if names and not made_there:
        raise Fatal(
            f"nothing was made for {', '.join(names)}: only a row says where its messages go at the broker",
            hint="Make it there yourself, or correct the sink's settings.",
        )
    if backfill and not publish(wiring, timeout, Scope(where=where), even_expired=even_expired):
        click.echo("stopped: run `walrelay init --backfill` again to go on from here", err=True)
        ctx.exit(1)
    click.echo("ready: start the relay with `walrelay run`")


def _given(ctx: click.Context, option: str) -> bool:
    return ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE


def make(catalog: Catalog, wiring: Wiring, steps: Sequence[setup.SetupStep], timeout: float) -> set[setup.Kind]:
    """Makes what is missing and prints it; returns what was made."""
    made = set[setup.Kind]()
    for step, outcome in setup.apply(catalog, wiring, list(steps), patience=timeout):
        click.echo(f"{step.what} {outcome}" if outcome.why else f"{outcome.verdict:8}  {step.what}")
        made |= {step.kind} if outcome.verdict == "created" else set()
    return made


def show_filter(catalog: Catalog, wiring: Wiring, *, there: bool) -> None:
    """The SQL of the row filter. `there`: table and publication, without which nothing is known of the columns."""
    if there:
        click.echo(f"-- row filter\n{pushing.plan(catalog, wiring).sql}", nl=False)
    else:
        click.echo("-- row filter: can be shown once table and publication are there")


def make_filter(catalog: Catalog, wiring: Wiring) -> None:
    """Makes the row filter, and says which rules stay with the relay."""
    planned = pushing.plan(catalog, wiring)
    if planned.sql:
        pushing.apply(catalog, wiring, planned)
    done = [drop.rule for drop in planned.drops if not drop.why]
    verdict = "updated" if planned.sql else "present"
    click.echo(f"{verdict:8}  row filter: {', '.join(done) or 'none, because no rule at the top can be pushed down'}")
    for drop in planned.drops:
        if drop.why:
            click.echo(f"{'left out':8}  rule {drop.rule}: {drop.why}; the relay drops its records itself")


def _begin(wiring: Wiring, catalog: Catalog) -> None:
    """Stores where the new slot begins, over an earlier slot's position. A broker that is away is only a warning."""
    try:
        begin_at(wiring, catalog)
    except Retryable as error:
        click.secho(
            f"warning: {error}; if the relay had a slot before, start it with --from-slot", fg="yellow", err=True
        )


def publish(wiring: Wiring, timeout: float, scope: Scope, known: Known = NOTHING_KNOWN, *, even_expired: bool) -> bool:
    """Makes the slot and publishes the rows of the scope, with a bar; returns whether it was completed."""
    with BarObserver() as observer:
        done = backfill_until(
            signalled(), wiring, scope, observer, patience=timeout, known=known, even_expired=even_expired
        )
    click.echo(f"{'created' if done else 'not ready':8}  slot {wiring.slot}")
    click.echo(f"published {count(observer.rows, 'row')} from the table")
    if observer.blocked:
        click.echo(
            f"blocked   {count(observer.blocked, 'message')} behind a dead letter of the same key: walrelay dlq replay"
        )
    return done
