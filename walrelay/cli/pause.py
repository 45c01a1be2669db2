"""`walrelay pause`: asks the relay to stop reading for a while."""

from datetime import datetime
from threading import Event
from time import sleep
from typing import Any

import click

from walrelay.cli.chosen import Chosen, named_relay, one_relay
from walrelay.cli.options import MomentType, operator
from walrelay.cli.remote import RemoteApi, api_option
from walrelay.config.values import duration
from walrelay.control.table import PauseRequest
from walrelay.errors import Fatal
from walrelay.operations.pausing import Asking, PauseCost, await_obedience, pause_cost
from walrelay.operations.pausing import pause as pause_relay
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.sizes import parse_size, size
from walrelay.postgres.wal_pace import WalPace


class _Duration(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic since click 8.4
    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return duration(str(value))
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time: write 90s, 30m or 2h", param, ctx)


class _Until(MomentType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            duration(str(value))
        except ValueError:
            return super().convert(value, param, ctx).at
        return self.fail(f"{value!r} is not a time of day: for a while write --for {value}", param, ctx)


class _Size(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            found = parse_size(str(value))
        except (ValueError, OverflowError):
            found = 0
        if not 0 < found < 2**63:
            self.fail(f"{value!r} is not a size: write 500MB or 10GB", param, ctx)
        return found


@click.command()
@one_relay
@api_option
@click.argument("name", required=False, default="")
@click.option("--reason", default="", help="Why; everybody sees it who asks for the relay's state.")
@click.option("--for", "period", type=_Duration(), help="Resume after that time: 90s, 30m, 2h.")
@click.option("--until", type=_Until(), help="Resume at that time.")
@click.option("--limit", type=_Size(), help="How much WAL the slot may retain meanwhile: 10GB.")
@click.option(
    "--then",
    type=click.Choice(["resume", "drop-slot"]),
    default=None,
    help="What to do at the limit.  [default: resume]",
)
def pause(
    relay: Chosen,
    name: str,
    api: str,
    reason: str,
    period: float | None,
    until: datetime | None,
    limit: int | None,
    then: str | None,
) -> None:
    """Pause a relay: it publishes nothing until it is resumed.

    NAME is the relay's in the settings, or its slot; `--relay NAME` does the same. A file of one relay needs neither.

    The pause is in the database and outlives every process. The relay settles what is under way, keeps its lead and
    reads nothing. Meanwhile the slot retains all WAL that the server writes, so the command says what that costs. At
    the limit the relay resumes, or drops its slot and stops; then `walrelay recover` publishes from the table what was
    missed. Both need a process that runs.

    \b
    Example:
      walrelay pause --reason 'warehouse is upgraded' --for 2h
      walrelay pause orders --until 2026-11-24T06:00Z --limit 10GB
      walrelay pause orders --limit 50GB --then drop-slot
    """
    if period is not None and until is not None:
        raise click.UsageError("Give --for or --until, not both.")
    if then is not None and limit is None:
        raise click.UsageError("--then says what to do at a limit: give --limit.")
    end = None if until is None else until.isoformat()
    if api:
        asked = {"reason": reason, "for_seconds": period, "until": end, "limit_bytes": limit}
        asked["at_limit"] = "drop_slot" if then == "drop-slot" else "resume"
        _pause_remotely(RemoteApi(api), name or relay.name, asked)
        return
    found, contact = named_relay(relay, name)
    request = PauseRequest(operator(), reason, end, limit, then == "drop-slot", period)
    with Catalog(contact.dsn) as catalog:
        paused = pause_relay(catalog, contact.slot, found, request)
        pace = WalPace(sleep)
        pace.look(catalog)
        cost = pause_cost(catalog, contact.slot, found, pace)
        disobeyed = await_obedience(Asking(catalog, contact.dsn), contact.slot, found, Event())
    _show(found, str(paused), cost, disobeyed)


def _pause_remotely(api: RemoteApi, name: str, asked: dict[str, Any]) -> None:
    relay = api.relay(name)
    begun = api.post(f"{relay.path}/pause", asked)
    cost = begun["cost"]
    known = cost["retained_bytes"], cost["bytes_per_minute"], cost["safe_bytes"], cost["led"]
    _show(relay.name, begun["paused"], PauseCost(*known), begun.get("disobeyed") or "")


def _show(name: str, paused: str, cost: PauseCost, disobeyed: str) -> None:
    click.echo(f"{name} is asked to pause {paused}" if disobeyed else f"{name} is paused {paused}")
    for line in _lines(cost):
        click.echo(line)
    if disobeyed:
        raise Fatal(disobeyed)
    click.echo(f"walrelay resume {name}  # ends it")


def _lines(cost: PauseCost) -> list[str]:
    lines = [] if cost.led else ["no instance leads it now: one that starts will find the pause"]
    retained = "unknown" if cost.retained is None else size(cost.retained)
    lines.append(f"{'retained WAL':16}{retained}, and {size(cost.per_minute)} more a minute at the present rate")
    if cost.safe is None:
        lines.append(f"{'left until lost':16}no limit: the slot retains WAL until the disk is full")
    else:
        hours = cost.hours_left
        left = "" if hours is None else f", in {hours:.1f} hours at the present rate"
        lines.append(f"{'left until lost':16}{size(cost.safe)}{left}")
    return lines
