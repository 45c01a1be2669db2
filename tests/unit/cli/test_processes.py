"""Which process has which relays, and lines of a log that several processes write."""

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
