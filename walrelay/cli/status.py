"""`walrelay status`: the slot's position, its lag and its WAL."""

import click

from walrelay import compose
from walrelay.cli.chosen import Chosen, each_relay
from walrelay.cli.streams import printable
from walrelay.operations.status import RelayConnection, Status
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import terminate, unexpected_leader
from walrelay.postgres.sizes import size


@click.command()
@each_relay
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout for each relay.")
@click.option(
    "--max-lag",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Exit with 1 if an event has waited for longer, or might have.",
)
@click.pass_context
def status(ctx: click.Context, relay: Chosen, as_json: bool, max_lag: float | None) -> None:
    """Show the slot's position, its lag and the WAL it holds back.

    Lag in seconds is the age of the oldest event that is not confirmed. While no relay reads the slot, the command
    itself reads the slot's first transaction, for a second at most; everything else comes from catalog views.

    \b
    Example:
      walrelay status
      walrelay status --json | jq .lag_bytes
      walrelay status --max-lag 60 || page-somebody
    """
    wiring = compose.wiring(relay.settings())
    with Catalog(wiring.dsn) as catalog:
        found = compose.status(catalog, wiring)
    click.echo(found.as_json(relay.name) if as_json else _lines(found))
    if max_lag is not None and (found.lag_seconds is None or found.lag_seconds > max_lag):
        ctx.exit(1)


def _lines(found: Status) -> str:
    led = found.leader is not None and found.leader.replicates
    nothing = "no process: its leader has no stream now" if led else "no process: the relay is not connected"
    reader = f"PID {found.active_pid}" if found.active else nothing
    since = f" since {found.since}" if found.since and found.why else ""
    lines = [
        ("state", printable(f"{found.state}{since}" + (f": {found.why}" if found.why else ""))),
        ("slot", f"{found.slot} ({found.plugin or 'physical'}, database {found.database or 'none'})"),
        ("read by", reader),
        ("confirmed", f"{found.confirmed_lsn} of {found.current_lsn}"),
        ("lag", f"{_size(found.lag_bytes)}, {_waits(found.lag_seconds)}"),
        ("retained WAL", f"{_size(found.retained_wal_bytes)} (status {found.wal_status})"),
    ]
    if found.leader is not None or found.standbys or found.sharing:
        lines.insert(3, ("instances", _instances(found)))
    if found.safe_wal_bytes is not None:
        lines.append(("left until lost", _size(found.safe_wal_bytes)))
    if found.held_by:
        lines.append(("held by", found.held_by))
    if found.waits_for:
        lines.append(("waits for", found.waits_for))
    if found.dead_letters is not None:
        lines.append(("dead letters", f"{found.dead_letters} wait" if found.dead_letters else "none"))
    for problem in found.problems:
        lines += [("problem", problem.detail), ("  fix", problem.fix)]
    if found.next and not found.problems:
        lines.append(("next", printable(found.next)))
    return "\n".join(f"{name:16}{value}" for name, value in lines)


def _instances(found: Status) -> str:
    leader = "no instance leads" if found.leader is None else f"PID {found.leader.pid}{_from(found.leader)} leads"
    if found.leader is not None and not found.leader.replicates:
        leader = unexpected_leader(found.slot, found.leader.pid, found.leader.role, found.leader.application_name)
        leader += f" ({terminate(found.leader.pid)})"
    waiting = [f"PID {each.pid}{_from(each)}" for each in found.standbys]
    there = f"{leader}, {len(waiting)} standing by" + (f": {', '.join(waiting)}" if waiting else "")
    return there + (f"; {_sharing(len(found.sharing))}" if found.sharing else "")


def _sharing(count: int) -> str:
    return "1 instance has it among its relays" if count == 1 else f"{count} instances have it among their relays"


def _from(instance: RelayConnection) -> str:
    return f" from {instance.client_address}" if instance.client_address else ""


def _size(count: int | None) -> str:
    return "unknown" if count is None else size(count)


def _waits(seconds: float | None) -> str:
    if seconds is None:
        return "the age of the oldest event is unknown"
    return f"the oldest event has waited for {seconds:.1f} s" if seconds else "no event waits"
