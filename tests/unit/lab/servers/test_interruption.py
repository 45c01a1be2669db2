"""A signal becomes one exception, at a moment when it does no harm.

Each in a process of its own. A command that was tried in the process of the tests may have left its listener for
signals there (walrelay/cli/ending.py), which ends the process at the second one.
"""

import signal
import subprocess
import sys
from textwrap import indent

import pytest

_SCRIPT = """
import signal, sys
from signal import SIGINT, raise_signal
from walrelay.lab.servers.backstage import Interrupted, Interruption

steps = []
try:
{what}
except Interrupted as interrupted:
    steps.append(interrupted.exit_code)
except LookupError:
    steps.append("an error")
print(*steps, sep=", ")
"""


def steps(what: str) -> str:
    """What is printed of the steps of these lines."""
    script = _SCRIPT.format(what=indent(what.strip(), "    "))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_interrupts_with_the_exit_code_of_a_shell(number: signal.Signals, code: int) -> None:
    said = steps(f"""
with Interruption():
    raise_signal({int(number)})
    steps.append("not interrupted")
""")
    assert said == str(code)


def test_a_signal_waits_for_the_end_of_what_must_be_whole() -> None:
    said = steps("""
with Interruption() as interruption:
    with interruption.held_off():
        raise_signal(SIGINT)
        steps.append("whole")
    steps.append("after")
""")
    assert said == "whole, 130"


def test_an_error_in_what_must_be_whole_is_not_hidden_by_a_signal() -> None:
    said = steps("""
with Interruption() as interruption, interruption.held_off():
    raise_signal(SIGINT)
    raise LookupError
""")
    assert said == "an error"


def test_only_the_first_signal_interrupts() -> None:
    said = steps("""
with Interruption():
    try:
        raise_signal(SIGINT)
    finally:
        raise_signal(SIGINT)
        steps.append("tidied up")
""")
    assert said == "tidied up, 130"


def test_no_signal_disturbs_the_tidying_up() -> None:
    said = steps("""
with Interruption() as interruption:
    interruption.end()
    raise_signal(SIGINT)
    steps.append("tidied up")
""")
    assert said == "tidied up"


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    said = steps("""
before = signal.getsignal(signal.SIGTERM)
with Interruption():
    steps.append(signal.getsignal(signal.SIGTERM) == before)
steps.append(signal.getsignal(signal.SIGTERM) == before)
""")
    assert said == "False, True"
