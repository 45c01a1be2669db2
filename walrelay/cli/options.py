"""Options that several commands share, types for times and positions, and the operator's name."""

import math
import os
import pwd
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click

from walrelay.config.document import encodable
from walrelay.config.values import duration


def operator() -> str:
    """The operating system's name of the user, or its number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


_LARGEST = 2**31 - 1  # of PostgreSQL's integer

config_option = click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(path_type=Path, readable=False),
    default=Path("walrelay.yaml"),
    envvar="WALRELAY_CONFIG",
    show_default=True,
    show_envvar=True,
    help="The settings file.",
)
"""The command gets it as `config_path: Path`. `config.load` reports a file that does not exist, with a hint."""

waiting = click.FloatRange(0.1, 86_400)
"""The type of an option in seconds to wait."""


def guarded(command: click.Command) -> click.Command:
    """The command and its subcommands with options that refuse, with exit code 2, what PostgreSQL cannot take: bytes
    that are no text, NaN and infinity, numbers out of range. An option of type UNPROCESSED takes raw bytes.
    """
    for parameter in command.params:
        parameter.callback = _Guard(parameter.callback)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            guarded(each)
    return command


class _Guard:
    def __init__(self, then: Any) -> None:
        self._then = then

    def __call__(self, ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if parameter.type is not click.UNPROCESSED:
            for each in value if isinstance(value, tuple) else (value,):
                try:
                    _refuse(each, parameter.type)
                except ValueError as error:
                    raise click.BadParameter(str(error), ctx, parameter) from None
        return self._then(ctx, parameter, value) if self._then else value


def _refuse(value: Any, kind: click.ParamType) -> None:  # type: ignore[type-arg, unused-ignore]
    match value:
        case str():
            encodable(value)
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        # By the option's type: a position is an int too, and most exceed that.
        case int() if isinstance(kind, click.types.IntParamType) and abs(value) > _LARGEST:
            raise ValueError(f"{value} is beyond {_LARGEST}")


class Moment(NamedTuple):
    """The text as typed, and the time that it means now, in UTC."""

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
            self.fail(f"{text!r} is not a time: write 2026-11-21, '2026-11-21T20:25:00Z', or 2h for two hours ago")


class ZonedMomentType(MomentType):
    """For options where a mistake of some hours would lose events. walrelay prints times in UTC, and a typed time is by
    the machine's clock: unless these agree, the time must name its zone.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        moment = super().convert(value, param, ctx)
        with suppress(ValueError):  # as in 2h, without a zone
            typed = datetime.fromisoformat(moment.typed)
            if typed.tzinfo is None and typed.astimezone().utcoffset():
                self.fail(f"{moment.typed!r} has no time zone: write {typed:%Y-%m-%dT%H:%M}Z for UTC, or append +02:00")
        return moment


class PositionsType(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from walrelay.operations.replay import position_range  # most commands do not need it

        try:
            position_range(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is not a range of positions: write 16/B374D848:0..16/B374E0A0, as in the header `position`"
            )
        return str(value)
