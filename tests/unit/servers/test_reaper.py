"""The reaper ends what was not ended, and only that."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import reaper

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)",
]


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the reaper ends here are our children: ended or not, their pids stay until we wait for them.
    monkeypatch.setattr(reaper, "PATIENCE", 0.1)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as child:
        yield child
        child.kill()


def test_a_process_gets_its_signal_and_directories_go(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    data = tmp_path / "data of a server"
    (data / "sub").mkdir(parents=True)
    reaper.reap([f"process {sleeper.pid} {signal.SIGTERM:d}\n", f"directory {data}\n"])
    assert sleeper.wait(5) == -signal.SIGTERM
    assert not data.exists()


def test_a_forgotten_process_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    reaper.reap([f"process {sleeper.pid} 15\n", f"forget {sleeper.pid}\n"])
    assert sleeper.poll() is None


def test_a_process_deaf_to_its_signal_is_killed() -> None:
    with subprocess.Popen(DEAF, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        reaper.reap([f"process {child.pid} 15\n"])
        assert child.wait(5) == -signal.SIGKILL
