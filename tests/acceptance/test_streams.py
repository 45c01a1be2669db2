"""Standard streams that are closed, full or gone, and Ctrl-C before anything is imported: no traceback from anything.

The module is run rather than the installed script, which is the same but for the name.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.servers.database import Database
from tests.servers.waiting import wait_until

_COMMANDS = (["--help"], ["--version"], ["config", "example"], ["config", "schema"], ["config", "check"])
_ASKING = (["status"], ["status", "--json"], ["doctor"], ["doctor", "--json"], ["tail"])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "walrelay.yaml"
    path.write_text("source: {dsn: 'postgresql://nobody@127.0.0.1:1/nothing'}\nsink: {kind: stdout}\n")
    return path


@pytest.fixture
def relayed(database: Database, tmp_path: Path) -> Path:
    """Of a database with a slot in which a record waits."""
    path = tmp_path / "relayed.yaml"
    slot = f"streams_{os.getpid()}"
    path.write_text(f"source: {{dsn: '{database.dsn}', slot: {slot}}}\nsink: {{kind: stdout}}\n")
    subprocess.run(_command(["init"], path), check=True, stdout=PIPE)
    database.execute("SELECT walrelay.emit('order', '42', 'Placed', '{}')")
    return path


def _command(arguments: Sequence[str], config: Path) -> list[str]:
    own = ["-c", str(config)] if arguments[-1] not in ("--help", "--version", "example", "schema") else []
    return [sys.executable, "-m", "walrelay", *arguments, *own]


def shell(redirection: str, arguments: Sequence[str], config: Path) -> "subprocess.CompletedProcess[str]":
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *_command(arguments, config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("arguments", _COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("redirection", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_output_that_cannot_be_written_is_an_error_in_one_line(
    arguments: list[str], redirection: str, why: str, config: Path
) -> None:
    ended = shell(redirection, arguments, config)
    assert (ended.returncode, ended.stderr) == (1, f"error: standard output: {why}\n")


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_commands_that_ask_the_database_say_that_output_cannot_be_written(redirection: str, relayed: Path) -> None:
    for arguments in _ASKING:
        ended = shell(redirection, arguments, relayed)
        assert ended.returncode == 1, arguments
        assert ended.stderr.splitlines()[-1].startswith("error: standard output: "), arguments


def test_a_relay_whose_records_nobody_can_take_ends_with_1(relayed: Path) -> None:
    ended = shell(">&-", ["run"], relayed)
    assert ended.returncode == 1
    assert "standard output cannot be written: Bad file descriptor" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "<&- >&- 2>&-"])
def test_messages_that_cannot_be_written_change_no_exit_code(redirection: str, config: Path, relayed: Path) -> None:
    assert shell(redirection, ["config", "check"], Path("/does/not/exist")).returncode == 2
    assert shell(redirection, ["status", "--no-such-option"], config).returncode == 2
    assert shell(redirection, ["status"], config).returncode == 1
    if redirection.startswith("2"):
        assert shell(redirection, ["tail", "--limit", "1"], relayed).stdout.count("\n") == 1


def test_a_question_without_anybody_to_answer_is_a_no(relayed: Path) -> None:
    ended = shell("<&-", ["drop"], relayed)
    assert (ended.returncode, ended.stderr.endswith("stopped: nobody said yes\n")) == (1, True)
    assert shell("", ["status"], relayed).returncode == 0, "the slot is there still"


@pytest.mark.parametrize("encoding", ["ascii", "utf-16"])
def test_a_terminal_of_any_encoding_gets_what_it_can_show(encoding: str, database: Database, relayed: Path) -> None:
    database.execute("SELECT walrelay.emit('order', 'ü', 'Ж', '{}')")
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for arguments in (["doctor"], ["tail"]):
        ended = subprocess.run(_command(arguments, relayed), env=environment, capture_output=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("command", "number", "ends"),
    [
        ("status", signal.SIGINT, (130, "", "interrupted\n")),
        ("run", signal.SIGINT, (130, "", "interrupted\n")),
        ("run", signal.SIGTERM, (0, "", "")),
    ],
)
def test_a_signal_while_modules_are_imported_ends_the_command_without_a_traceback(
    tmp_path: Path, command: str, number: signal.Signals, ends: tuple[int, str, str]
) -> None:
    """psycopg is imported late, by walrelay: here its import waits for the signal."""
    fake = tmp_path / "psycopg"
    fake.mkdir()
    started = tmp_path / "started"
    (fake / "__init__.py").write_text(f"import time\nopen({str(started)!r}, 'w').close()\ntime.sleep(60)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "walrelay", command], stdout=PIPE, stderr=PIPE, text=True, env=environment
    ) as process:
        try:
            wait_until(started.exists, 30, "the imports to begin")
            process.send_signal(number)
            output, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, output, errors) == ends
