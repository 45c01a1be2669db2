"""Times and positions as options."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click

from walrelay.config.values import duration
from walrelay.operations.replay import position_range


class Moment(NamedTuple):
    """What was typed, and the time that it means now, in UTC."""

    typed: str
    at: datetime


class MomentType(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic since click 8.4
    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        text = str(value)
        try:
            return Moment(text, datetime.now(UTC) - timedelta(seconds=duration(text)))
        except ValueError:
            pass
        try:
            return Moment(text, datetime.fromisoformat(text).astimezone(UTC))  # without a zone: the machine's clock
        except (ValueError, OverflowError):  # the latter: the first and the last day, in another zone
            self.fail(f"{text!r} is no time: write 2026-11-21, '2026-11-21T20:25:00Z', or 2h for two hours ago")


class ZonedMomentType(MomentType):
    """Where a mistake of some hours would lose events. What is told here is told in UTC, and times are typed by the
    machine's clock: so unless they are the same, a time has to say which it is.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        moment = super().convert(value, param, ctx)
        with suppress(ValueError):  # so long ago
            typed = datetime.fromisoformat(moment.typed)
            if typed.tzinfo is None and typed.astimezone().utcoffset():
                self.fail(
                    f"{moment.typed!r} is a time in which zone? Write {typed:%Y-%m-%dT%H:%M}Z for UTC, or +02:00 behind"
                    " it"
                )
        return moment


class PositionsType(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            position_range(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is no range of positions: write 16/B374D848:0..16/B374E0A0, as the messages have them"
            )
        return str(value)
