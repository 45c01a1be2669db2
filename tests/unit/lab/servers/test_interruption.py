"""A signal becomes one exception, at a moment when it does no harm."""

import signal
import subprocess
import sys

import pytest

from walrelay.lab.servers.interruption import Interrupted, Interruption

_ONE_SIGNAL = """
import signal, sys
from walrelay.lab.servers.interruption import Interrupted, Interruption
try:
    with Interruption():
        signal.raise_signal(int(sys.argv[1]))
except Interrupted as interrupted:
    sys.exit(interrupted.exit_code)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_interrupts_with_the_exit_code_of_a_shell(number: signal.Signals, code: int) -> None:
    """In a process of its own: what goes wrong with SIGTERM would end the process of the tests."""
    assert subprocess.run([sys.executable, "-c", _ONE_SIGNAL, str(int(number))], timeout=60).returncode == code


def test_a_signal_waits_for_the_end_of_what_must_be_whole() -> None:
    steps = []

    def whole(interruption: Interruption) -> None:
        with interruption.held_off():
            signal.raise_signal(signal.SIGINT)
            steps.append("whole")
        steps.append("after")

    with Interruption() as interruption, pytest.raises(Interrupted):
        whole(interruption)
    assert steps == ["whole"]


def test_an_error_in_what_must_be_whole_is_not_hidden_by_a_signal() -> None:
    def failing(interruption: Interruption) -> None:
        with interruption.held_off():
            signal.raise_signal(signal.SIGINT)
            raise LookupError

    with Interruption() as interruption, pytest.raises(LookupError):
        failing(interruption)


def test_only_the_first_signal_interrupts() -> None:
    with Interruption():
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_no_signal_disturbs_the_tidying_up() -> None:
    with Interruption() as interruption:
        interruption.end()
        signal.raise_signal(signal.SIGINT)


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interruption():
        pass
    assert signal.getsignal(signal.SIGTERM) is before
