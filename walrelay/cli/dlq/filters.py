"""The filters that the commands of `walrelay dlq` share."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from walrelay.dead_letters import DeadLetterFilter

F = TypeVar("F", bound=Callable[..., Any])

STATUSES = ("waiting", "blocked", "replayed", "discarded", "skipped")


class _Time(click.DateTime):
    """With the machine's time zone."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx).astimezone()
        except (OverflowError, ValueError):  # the first and the last day, in another zone
            self.fail(f"{value!r} is too far away", param, ctx)


_TIMES = _Time(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])

_FILTERS = (
    click.option("--topic", help="The topic that refused it; * stands for any characters."),
    click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True, help="May be given repeatedly."),
    click.option("--error", help="The kind of error, as `dlq list` shows it."),
    click.option("--since", type=_TIMES, help="Last met at or after this time, the machine's clock."),
    click.option("--until", type=_TIMES, help="Last met before this time."),
    click.option("--id", "id_", help="The number of the letter, or the id of the record."),
    click.option("--key", type=click.UNPROCESSED, metavar="TEXT", help="The message's key."),
    click.option("--limit", type=click.IntRange(min=1), help="So many, the oldest positions first."),
)


def filters(command: F) -> F:
    """Gives the command the options, to be passed on to `wanted`."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def wanted(
    topic: str | None,
    statuses: tuple[str, ...],
    error: str | None,
    since: datetime | None,
    until: datetime | None,
    id_: str | None,
    key: str | None,
    limit: int | None,
) -> DeadLetterFilter:
    """The filters as they were given."""
    raw = None if key is None else key.encode("utf-8", "surrogateescape")
    return DeadLetterFilter(statuses or None, topic, error, since, until, id_, raw, limit)
