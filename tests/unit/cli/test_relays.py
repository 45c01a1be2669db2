"""Which relay of the file a command is for, as it is typed."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from walrelay.cli import main
from walrelay.errors import Fatal
from walrelay.model import Finding
from walrelay.wiring import Wiring

FILE = """\
defaults: {source: {dsn: host=db}, sink: {kind: memory}}
relays:
  orders: {source: {slot: orders}}
  invoices: {source: {slot: invoices}}
"""
FINDINGS = {
    "orders": [Finding("slot", "problem", "is not there", "walrelay init")],
    "invoices": [Finding("slot", "ok", "is there")],
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The doctor has these findings, and `arguments` in their fixes."""

    def examine(wiring: Wiring, arguments: str) -> Iterator[Finding]:
        for finding in FINDINGS[wiring.slot]:
            yield finding._replace(fix=finding.fix and finding.fix + arguments)

    monkeypatch.setattr("walrelay.operations.doctor.examine", examine)
    path = tmp_path / "relays.yaml"
    path.write_text(FILE)
    return path


def run(config: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "-c", str(config)])


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


ALL = dict(commands(main))
OF_A_RELAY = {name for name, command in ALL.items() if any("--config" in each.opts for each in command.params)}
OF_ALL = {"run", "init", "doctor", "status", "report", "config check", "relays", "top"}
NEEDED = {"audit": [], "cleanup": [], "replay": [], "drop": ["--yes"], "recover": ["--yes"], "tail": []} | {
    "skip": ["--position", "0/1"],
    "dlq list": [],
    "dlq show": ["1"],
    "dlq edit": ["1", "--reason", "x"],
    "dlq replay": [],
    "dlq discard": ["--reason", "x"],
    "dlq export": [],
    "route test": [],
    "migrate offset": ["offsets.dat"],
    "compare": ["--old", "a", "--new", "b"],
    "find": ["1"],
    "events": [],
    "pause": [],
    "resume": [],
    "restart": [],
    "drain": [],
}


def test_each_command_that_reads_the_settings_of_a_relay_lets_it_be_named() -> None:
    assert {name for name in OF_A_RELAY if any("--relay" in each.opts for each in ALL[name].params)} == OF_A_RELAY
    assert {*OF_ALL, *NEEDED} <= OF_A_RELAY


@pytest.mark.parametrize("command", sorted(OF_A_RELAY - OF_ALL))
def test_a_command_for_one_relay_asks_which_if_there_are_several(command: str, config: Path) -> None:
    result = run(config, *command.split(), *NEEDED[command])
    assert result.exit_code == 2
    assert "Which relay? Name one with --relay: orders, invoices." in result.stderr


def test_a_name_that_no_relay_has_is_answered_with_the_names(config: Path) -> None:
    for command in ("drop", "doctor", "run"):
        result = run(config, command, "--relay", "order")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "there is no relay 'order'; there are orders, invoices" in result.stderr


def test_the_doctor_does_one_after_the_other_and_ends_with_the_worst_exit_code(config: Path) -> None:
    result = run(config, "doctor")
    assert result.stdout.splitlines() == [
        "== orders",
        "✗ slot                      is not there",
        f"    fix: walrelay init -c {config} --relay orders",
        "1 problem: not ready",
        "== invoices",
        "✓ slot                      is there",
        "ready",
    ]
    assert result.exit_code == 1
    assert run(config, "doctor", "--relay", "invoices").exit_code == 0
    assert run(config, "doctor", "--relay", "invoices").stdout.splitlines()[0].startswith("✓ slot")


def test_a_program_gets_an_object_for_each_relay_that_names_it(config: Path) -> None:
    decoder, text, found = json.JSONDecoder(), run(config, "doctor", "--json").stdout, []
    while text.strip():
        each, end = decoder.raw_decode(text)
        found.append((each["relay"], each["ready"]))
        text = text[end:].lstrip()
    assert found == [("orders", False), ("invoices", True)]


def test_an_error_of_one_relay_names_it_and_the_next_is_done(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def examine(wiring: Wiring, arguments: str) -> Iterator[Finding]:
        if wiring.slot == "orders":
            raise Fatal("something", hint="do this")
        return iter(FINDINGS["invoices"])

    monkeypatch.setattr("walrelay.operations.doctor.examine", examine)
    result = run(config, "doctor")
    assert (result.exit_code, result.stderr) == (1, "error: orders: something\nhint: do this\n")
    assert result.stdout.splitlines() == ["== orders", "== invoices", "✓ slot                      is there", "ready"]


def test_the_check_names_the_relays(config: Path) -> None:
    assert run(config, "config", "check").output == f"{config}: no problems in orders, invoices\n"
    assert run(config, "config", "check", "--relay", "orders").output == f"{config}: no problems in orders\n"


@pytest.mark.parametrize(
    ("command", "option"),
    [(["init", "--backfill"], "--backfill"), (["init", "--topics", "a"], "--topics"), (["run", "--from-slot"], "")],
)
def test_what_is_meant_for_one_relay_is_not_done_to_all(command: list[str], option: str, config: Path) -> None:
    result = run(config, *command)
    assert result.exit_code == 2
    assert f"Name one with --relay for {option}" in result.stderr
