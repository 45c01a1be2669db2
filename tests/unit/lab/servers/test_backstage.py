"""Processes and directories of a demo go with it."""

import os
import signal
import sys

import pytest

from walrelay.lab.servers.backstage import Backstage, Interruption

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


def test_everything_goes_at_the_end() -> None:
    with Backstage(Interruption()) as backstage:
        directory = backstage.directory("data")
        child = backstage.start("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"], directory=directory)
        assert child.running
    assert not child.running
    assert not backstage.home.exists()


def test_everything_goes_with_an_error_too() -> None:
    backstage = Backstage(Interruption())
    with pytest.raises(LookupError), backstage:
        raise LookupError
    assert not backstage.home.exists()


def test_a_child_that_will_not_end_is_killed() -> None:
    with Backstage(Interruption()) as backstage:
        child = backstage.start("deaf", [sys.executable, "-c", DEAF], output=True)
        assert child.output.readline() == "deaf\n"
        assert child.end(signal.SIGTERM, patience=0.1) == -signal.SIGKILL


def test_a_terminals_ctrl_c_does_not_reach_a_child() -> None:
    with Backstage(Interruption()) as backstage:
        sleeper = backstage.start("sleeper", ["sleep", "60"])
        assert os.getsid(sleeper.pid) == sleeper.pid


def test_a_failure_quotes_the_end_of_the_log() -> None:
    with Backstage(Interruption()) as backstage:
        child = backstage.start("initdb", [sys.executable, "-c", "import sys; sys.exit('no space left')"])
        assert child.wait(10) == 1
        assert str(child.failure("failed")) == "initdb failed:\nno space left"
