"""Options that several commands share, and who runs a command."""

import math
import os
import pwd
from pathlib import Path
from typing import Any

import click

from walrelay.config.document import encodable


def operator() -> str:
    """The operating system's name for the user; its number where it has none."""
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
"""The command gets it as `config_path: Path`. Whether the file is there is for `config.load` to say, with a hint."""

waiting = click.FloatRange(0.1, 86_400)
"""The type of an option that says for how many seconds to wait."""


def guarded(command: click.Command) -> click.Command:
    """The command, with all below it, whose options refuse what nothing behind them can take, with exit code 2: bytes
    that are no text, numbers that are none, numbers beyond PostgreSQL's. A type of UNPROCESSED is for raw bytes.
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
        # By the option's type: a position is an int too, and most are beyond that.
        case int() if isinstance(kind, click.types.IntParamType) and abs(value) > _LARGEST:
            raise ValueError(f"{value} is beyond {_LARGEST}")
