"""The lists of commands: each has a summary that fits into a terminal of 80 columns."""

from collections.abc import Iterator

import click
import pytest

from walrelay.cli import main

_LONGEST = 65  # what click has room for beside the longest name of a command


def commands(group: click.Group, path: str = "walrelay") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


@pytest.mark.parametrize("command", [pytest.param(each, id=path) for path, each in commands(main)])
def test_no_summary_is_cut(command: click.Command) -> None:
    assert not command.get_short_help_str(_LONGEST).endswith("...")
