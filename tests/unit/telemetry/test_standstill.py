"""A process in which no thread runs any more says where it stands."""

import subprocess
import sys
import threading

from walrelay.telemetry.standstill import standstill_reported

_STANDS_STILL = """
import ctypes
from walrelay.telemetry.standstill import standstill_reported

def keep_the_lock():
    ctypes.PyDLL(None).usleep({microseconds})  # lets no other thread run

with standstill_reported({after}):
    keep_the_lock()
print("goes on")
"""


def stderr_of(microseconds: int, after: float) -> str:
    script = _STANDS_STILL.format(microseconds=microseconds, after=after)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "goes on\n"
    return done.stderr


def test_where_every_thread_stands_is_told() -> None:
    told = stderr_of(900_000, 0.3)
    assert told.startswith("Timeout (0:00:00.300000)!\n")
    assert "in keep_the_lock" in told


def test_a_process_that_goes_on_says_nothing() -> None:
    assert stderr_of(1_000, 30) == ""


def test_nothing_of_it_is_left() -> None:
    with standstill_reported(30):
        assert "standstill" in {each.name for each in threading.enumerate()}
    assert "standstill" not in {each.name for each in threading.enumerate()}
