"""The lists of commands: each has a summary that fits into a terminal of 80 columns."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from walrelay import cli
from walrelay.cli import SUMMARIES, main

_LONGEST = 65  # what click has room for beside the longest name of a command


def commands(group: click.Group, path: str = "walrelay") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


@pytest.mark.parametrize("command", [pytest.param(each, id=path) for path, each in commands(main)])
def test_no_summary_is_cut(command: click.Command) -> None:
    assert not command.get_short_help_str(_LONGEST).endswith("...")


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_of_commands_shows_the_summary_of_each(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert SUMMARIES[name] == command.get_short_help_str(_LONGEST)


def test_every_module_of_a_command_is_in_the_list() -> None:
    modules = {path.stem for path in Path(cli.__file__).parent.iterdir() if not path.stem.startswith("_")}
    held = {name: getattr(import_module(f"walrelay.cli.{name}"), name, None) for name in modules}
    assert {name for name, each in held.items() if isinstance(each, click.Command)} == set(SUMMARIES)


def test_a_command_that_is_misspelled_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cleanp"])
    assert ended.value.code == 2
    assert "No such command 'cleanp'. Did you mean 'cleanup'?" in capsys.readouterr().err
