"""Which process has which relays, lines of a log that several processes write, and a start that fails."""

import json
import subprocess
import sys

import pytest

from walrelay.cli.processes import shares

WRITE = """
import os, structlog
from walrelay.telemetry import logs
logs.configure("json", "info", shared=True)
children = []
for number in range(3):
    child = os.fork()
    if not child:
        for line in range(50):
            structlog.get_logger().info("x" * (9000 if line % 2 else 100), number=number)
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
"""

START = """
import os, resource, signal, sys
from walrelay.cli.processes import Processes, Work
from walrelay.supervise import Backoff

fork, (soft, hard) = os.fork, resource.getrlimit(resource.RLIMIT_NOFILE)

def no_memory():
    raise BlockingIOError(11, "Resource temporarily unavailable")

class Seen:
    def saw(self, happening):
        print(type(happening).__name__, *happening[:1], *signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)
        os.fork = fork
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

if sys.argv[1] == "fork":
    os.fork = no_memory
else:  # the parent's own pipe takes two
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, hard))
sys.exit(Processes([Work(["a"], lambda orders: 1)], Seen(), Backoff(0.01, 0.01)).run())
"""


@pytest.mark.parametrize(
    ("processes", "expected"),
    [(1, ["abcde"]), (2, ["ace", "bd"]), (4, ["ae", "b", "c", "d"]), (5, [*"abcde"]), (9, [*"abcde"])],
)
def test_each_relay_has_one_process_and_no_process_is_without(processes: int, expected: list[str]) -> None:
    assert shares("abcde", processes) == [list(share) for share in expected]


def test_lines_of_several_processes_stay_whole_where_a_pipe_would_cut_them() -> None:
    with subprocess.Popen([sys.executable, "-c", WRITE], stderr=subprocess.PIPE, text=True) as writer:
        assert writer.stderr is not None
        lines = [json.loads(line) for line in writer.stderr]
    assert writer.returncode == 0
    assert len(lines) == 3 * 50


@pytest.mark.parametrize(
    ("what", "why"), [("pipe", "Too many open files"), ("fork", "Resource temporarily unavailable")]
)
def test_a_process_that_cannot_be_started_is_tried_again_and_ends_no_other(what: str, why: str) -> None:
    done = subprocess.run([sys.executable, "-c", START, what], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        f"Noticed process 1 cannot be started, and is tried again: {why}",
        "ProcessStarted 1",
    ], done.stderr
    assert done.returncode == 1
