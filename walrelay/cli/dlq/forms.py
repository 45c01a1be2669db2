"""What the commands of `walrelay dlq` share: the table, and its filters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import click

from walrelay import compose
from walrelay.config import Settings
from walrelay.dead_letters import DeadLetterFilter, DeadLetterTable, TenantFilter
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

F = TypeVar("F", bound=Callable[..., Any])

_STATUSES = ("waiting", "blocked", "replayed", "discarded", "skipped")


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[Wiring, DeadLetterTable]]:
    wiring = compose.wiring(settings)
    with Catalog(wiring.dsn) as catalog:
        yield wiring, DeadLetterTable(catalog, wiring.slot)


class _Time(click.DateTime):
    """In the machine's time zone."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx).astimezone()
        except (OverflowError, ValueError):  # the first and the last day, in another zone
            self.fail(f"{value!r} is too far away", param, ctx)


_TIMES = _Time(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])

_FILTERS = (
    click.option("--topic", help="The topic that refused it; * matches any characters."),
    click.option("--status", "statuses", type=click.Choice(_STATUSES), multiple=True, help="May be given repeatedly."),
    click.option("--error", help="The kind of error, as `dlq list` shows it."),
    click.option("--since", type=_TIMES, help="Last refused at or after this time, in this machine's time zone."),
    click.option("--until", type=_TIMES, help="Last refused before this time."),
    click.option("--id", "id_", help="The number of the dead letter, or the id of the record."),
    click.option("--key", type=click.UNPROCESSED, metavar="TEXT", help="The message's key."),
    click.option("--tenant", "tenants", metavar="ID", multiple=True, help="The tenant. May be given repeatedly."),
    click.option("--limit", type=click.IntRange(min=1), help="At most this many dead letters, oldest positions first."),
)


def filters(command: F) -> F:
    """Adds the options to a command; `selected` takes their values."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def selected(
    wiring: Wiring,
    topic: str | None,
    statuses: tuple[str, ...],
    error: str | None,
    since: datetime | None,
    until: datetime | None,
    id_: str | None,
    key: str | None,
    tenants: tuple[str, ...],
    limit: int | None,
) -> DeadLetterFilter:
    """The filter that the options give."""
    raw = None if key is None else key.encode("utf-8", "surrogateescape")
    of_tenants = TenantFilter(tenants, wiring, partial(click.echo, err=True)) if tenants else None
    return DeadLetterFilter(statuses or None, topic, error, since, until, id_, raw, limit, of_tenants)
