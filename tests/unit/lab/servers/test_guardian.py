"""The guardian ends what was not ended, and only that."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from walrelay.lab.servers.guardian import Guardian

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def guardian() -> Iterator[Guardian]:
    guardian = Guardian(patience=0.2)
    yield guardian
    guardian.close()


@pytest.fixture
def sleeper(guardian: Guardian) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, start_new_session=True, preexec_fn=lambda: guardian.watch_me(signal.SIGQUIT)) as child:
        yield child
        child.kill()


def test_a_process_gets_its_signal(guardian: Guardian, sleeper: subprocess.Popen[bytes]) -> None:
    guardian.close()
    assert sleeper.wait(5) == -signal.SIGQUIT


def test_a_forgotten_process_is_left_alone(guardian: Guardian, sleeper: subprocess.Popen[bytes]) -> None:
    guardian.forget_process(sleeper.pid)
    guardian.close()
    assert sleeper.poll() is None


def test_a_directory_goes_with_all_that_is_in_it(guardian: Guardian, tmp_path: Path) -> None:
    directory = tmp_path / "with spaces in it"
    (directory / "sub").mkdir(parents=True)
    guardian.watch_directory(directory)
    guardian.close()
    assert not directory.exists()


def test_a_process_deaf_to_its_signal_is_killed(guardian: Guardian) -> None:
    deaf = "import signal, time; signal.signal(3, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", deaf],
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: guardian.watch_me(signal.SIGQUIT),
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        guardian.close()
        assert child.wait(5) == -signal.SIGKILL


def test_a_process_in_the_group_of_others_is_ended_alone(guardian: Guardian) -> None:
    with subprocess.Popen(SLEEP) as child, subprocess.Popen(SLEEP) as other:
        guardian.watch_process(child.pid, signal.SIGTERM)
        guardian.close()
        assert child.wait(5) == -signal.SIGTERM
        assert other.poll() is None
        other.kill()
