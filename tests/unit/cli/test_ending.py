"""Each error becomes a message and the documented exit code, in one place."""

import tomllib
from pathlib import Path

import click
import psycopg
import pytest

from walrelay import unforeseen
from walrelay.cli import ending
from walrelay.cli.config import config
from walrelay.errors import Fatal, Retryable, SettingsError


def raising(error: BaseException) -> int:
    def command() -> None:
        raise error

    return ending.exit_code(command)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Fatal("the slot is gone", hint="walrelay recover"), 1, "error: the slot is gone\nhint: walrelay recover\n"),
        (Retryable("away"), 1, "error: away\n"),
        (SettingsError("a.yaml:1: bad"), 2, "a.yaml:1: bad\n"),
        (OSError(28, "No space left on device", "standard output"), 1, "error: standard output: No space left"),
        (PermissionError(13, "Permission denied", "/var/x"), 1, "error: /var/x: Permission denied\n"),
        (MemoryError(), 1, "error: there is not enough memory\n"),
        (psycopg.errors.InternalError_("invalid page\nDETAIL: x"), 1, "error: PostgreSQL refused: invalid page\n"),
        (psycopg.OperationalError("server closed"), 1, "error: the connection to PostgreSQL broke: server closed\n"),
        (click.UsageError("no such thing"), 2, "Error: no such thing\n"),
    ],
)
def test_an_error_that_was_foreseen_is_said_in_a_line(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(error) == code
    assert capsys.readouterr().err.startswith(said)


def test_an_error_that_nobody_foresaw_asks_to_be_reported_and_names_the_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command() -> None:
        config.make_context("config", [object()])  # type: ignore[list-item]

    monkeypatch.delenv(unforeseen.TRACEBACK, raising=False)
    assert ending.exit_code(command) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: this is a bug in walrelay: ")
    assert "hint: Please report it" in said
    assert "Traceback" not in said
    monkeypatch.setenv(unforeseen.TRACEBACK, "1")
    assert ending.exit_code(command) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_ctrl_c_and_a_no_have_exit_codes_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise click.Abort from KeyboardInterrupt()

    assert ending.exit_code(interrupted) == 130
    assert raising(click.Abort()) == 1
    assert capsys.readouterr().err == "interrupted\nstopped: nobody said yes\n"


def test_a_command_without_a_code_is_done_and_one_with_a_code_keeps_it() -> None:
    assert ending.exit_code(lambda: None) == 0
    assert ending.exit_code(lambda: 1) == 1


def test_the_installed_command_begins_where_standard_streams_are_opened_before_the_imports() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"walrelay": "walrelay.__main__:main"}
