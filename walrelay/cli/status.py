"""`walrelay status`: where the slot stands."""

from pathlib import Path

import click

from walrelay import compose
from walrelay.cli.options import config_option
from walrelay.config import load
from walrelay.source.catalog import Catalog
from walrelay.source.status import Instance, Status
from walrelay.source.status import status as slot_status


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def status(config_path: Path, as_json: bool) -> None:
    """Show the slot's position, its lag and the WAL it holds back. Reads catalog views only.

    \b
    Example:
      walrelay status
      walrelay status --json | jq .lag_bytes
    """
    settings = load(config_path)
    with Catalog(compose.dsn(settings)) as catalog:
        found = slot_status(catalog, settings.source.slot)
    click.echo(found.as_json() if as_json else _lines(found))


def _lines(found: Status) -> str:
    reader = f"PID {found.active_pid}" if found.active else "nobody: the relay is not connected"
    lines = [
        ("slot", f"{found.slot} ({found.plugin}, database {found.database})"),
        ("read by", reader),
        ("confirmed", f"{found.confirmed_lsn} of {found.current_lsn}"),
        ("lag", f"{_size(found.lag_bytes)}, {_seconds(found.lag_seconds)}"),
        ("retained WAL", f"{_size(found.retained_wal_bytes)} (status {found.wal_status})"),
    ]
    if found.leader is not None or found.standbys:
        lines.insert(2, ("instances", _instances(found)))
    if found.safe_wal_bytes is not None:
        lines.append(("left until lost", _size(found.safe_wal_bytes)))
    if found.wal_status == "lost":
        lines.append(("lost", "it cannot be read any more: `walrelay recover --dry-run` says what can be done"))
    if found.held_by:
        lines.append(("held by", found.held_by))
    if found.waits_for:
        lines.append(("waits for", found.waits_for))
    if found.dead_letters is not None:
        lines.append(("dead letters", f"{found.dead_letters} wait" if found.dead_letters else "none"))
    return "\n".join(f"{name:16}{value}" for name, value in lines)


def _instances(found: Status) -> str:
    leader = "nobody leads" if found.leader is None else f"PID {found.leader.pid}{_from(found.leader)} leads"
    waiting = [f"PID {each.pid}{_from(each)}" for each in found.standbys]
    return f"{leader}, {len(waiting)} standing by" + (f": {', '.join(waiting)}" if waiting else "")


def _from(instance: Instance) -> str:
    return f" from {instance.client_address}" if instance.client_address else ""


def _size(count: int | None) -> str:
    if count is None:
        return "unknown"
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def _seconds(seconds: float | None) -> str:
    return "time unknown (no relay is connected)" if seconds is None else f"{seconds:.1f} s"
