"""CPU and memory of a tree of real, small processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.bench.peers.processes import Sample, Sampler, Tree, cpu_at
from tests.servers.waiting import wait_until

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
WAIT = "import sys; sys.stdin.read()\n"
FILLED = "x = bytearray(b'x') * {size}; print('done', flush=True)"
"""Not with zeros: a kernel that is short of memory takes pages of those back (Linux 6.12), and they count no more."""


@contextmanager
def python(program: str) -> Iterator["subprocess.Popen[str]"]:
    """Runs in a session of its own until the end of the block."""
    command = [sys.executable, "-S", "-c", program]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.communicate()


def child(program: str, **options: object) -> str:
    """A line of Python that starts the program as a child."""
    return f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-S', '-c', {program!r}], **{options})\n"


def test_a_process_counts_what_it_used() -> None:
    with python(BURN.format(seconds=0.3) + WAIT) as process:
        tree = Tree(process.pid)
        assert wait_until(lambda: tree.look().cpu >= 0.25, 20, "most of it to be seen")
        assert tree.look().cpu < 1


def test_a_child_that_ended_still_counts() -> None:
    program = child(BURN.format(seconds=0.3)) + "child.wait(); print('done', flush=True)\n" + WAIT
    with python(program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        tree = Tree(process.pid)
        assert tree.look().cpu >= 0.25
        assert tree.pids == [process.pid]


def test_a_child_that_ended_between_two_looks_counts_once() -> None:
    program = child(BURN.format(seconds=0.5)) + "child.wait(); print('done', flush=True)\n" + WAIT
    with python(program) as process:
        tree = Tree(process.pid)
        wait_until(lambda: tree.look().cpu >= 0.2, 20, "the child to have been seen at work")
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert 0.45 <= tree.look().cpu < 0.9


def test_a_process_whose_parent_is_gone_counts_as_it_was_last_seen() -> None:
    orphan = child(BURN.format(seconds=0.4) + WAIT)
    with python(orphan) as process:
        tree = Tree(process.pid)
        wait_until(lambda: tree.look().cpu >= 0.35, 20, "most of it to be seen")
        process.communicate()  # the end of its input, which both wait for
        wait_until(lambda: not _after_a_look(tree), 20, "both to be gone")
        assert tree.look().cpu >= 0.35


def test_a_child_in_a_session_of_its_own_belongs_to_the_tree() -> None:
    program = child(WAIT, start_new_session=True) + WAIT
    with python(program) as process:
        tree = Tree(process.pid)
        wait_until(lambda: len(_after_a_look(tree)) == 2, 20, "both to be seen")


def test_a_stranger_does_not_belong_to_the_tree() -> None:
    with python(WAIT) as process, python(WAIT):
        tree = Tree(process.pid)
        assert _after_a_look(tree) == [process.pid]


def test_the_memory_of_a_tree_is_that_of_all_its_processes() -> None:
    size = 50 * 2**20
    holding = FILLED.format(size=size) + "\n" + WAIT
    with python(child(holding) + holding) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["done\n", "done\n"]
        tree = Tree(process.pid)
        assert wait_until(lambda: tree.look().rss_bytes > 2 * size, 20, "the memory of both to be seen")


def test_a_sampler_keeps_the_peak() -> None:
    size = 100 * 2**20
    program = FILLED.format(size=size) + "; input(); del x; print('gone', flush=True)\n"
    with python(program + WAIT) as one:
        assert one.stdout is not None
        assert one.stdin is not None
        with Sampler(one.pid) as sampler:
            assert one.stdout.readline() == "done\n"
            seen = len(sampler.samples)
            wait_until(lambda: len(sampler.samples) > seen + 1, 20, "a sample with all of it")
            one.stdin.write("\n")
            one.stdin.flush()
            assert one.stdout.readline() == "gone\n"
        assert sampler.peak_rss_bytes > size > sampler.samples[-1].rss_bytes


@pytest.mark.parametrize(("at", "cpu"), [(0, 1.0), (10, 1.0), (11, 2.0), (12, 3.0), (13, 3.5), (99, 4.0)])
def test_cpu_between_two_samples_is_in_proportion(at: float, cpu: float) -> None:
    samples = [Sample(10, 1.0, 0), Sample(12, 3.0, 0), Sample(14, 4.0, 0)]
    assert cpu_at(samples, at) == cpu


def _after_a_look(tree: Tree) -> list[int]:
    tree.look()
    return tree.pids
