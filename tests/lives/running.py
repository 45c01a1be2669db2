"""Lives one after the other, in a world of their own."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

from tests.lives.commands import Commands
from tests.lives.life import Life, life
from tests.lives.receiver import Receiver
from tests.lives.world import World
from tests.servers.postgres import PostgresServer
from tests.servers.process import temporary_directory
from walrelay.lab.servers.postgres import newest_programs


@contextmanager
def world(package: Path | None = None) -> Iterator[World]:
    """With a server of its own. `package`: a directory with another walrelay."""
    with ExitStack() as stack:
        directory = temporary_directory("lives")
        server = stack.enter_context(PostgresServer(newest_programs(), {"max_connections": 60}))
        commands = stack.enter_context(Commands(directory, package))
        receiver = Receiver()
        stack.callback(receiver.close)
        yield World(server, commands, receiver, directory)


def minimised(failing: Life, in_world: World, seconds: float) -> Life:
    """With as few steps as fail in the same time; what fails now and then is tried twice."""
    end, size = monotonic() + seconds, max(1, len(failing.steps) // 2)
    while size and monotonic() < end:
        for at in range(0, len(failing.steps), size):
            fewer = replace(failing, steps=failing.steps[:at] + failing.steps[at + size :])
            if monotonic() > end:
                break
            if any(in_world.live(fewer) for _ in range(2)):
                failing = fewer
                break
        else:
            size //= 2
    return failing


def lives(first: int, step: int, end: float, most: int) -> tuple[int, list[tuple[int, list[str]]]]:
    """Lives until the time is over: how many, and those that failed."""
    lived, failed = 0, []
    with world() as shared:
        for seed in range(first, first + step * most, step):
            if monotonic() > end:
                break
            try:
                wrong = shared.live(life(seed))
            except Exception as error:  # what is wrong with the harness is a failure, too
                wrong = [f"{type(error).__name__}: {error}"]
            lived += 1
            if wrong:
                failed.append((seed, wrong))
                sys.stdout.write("\n  ".join([f"seed {seed}:", *wrong[:3]]) + "\n")
                sys.stdout.flush()
    return lived, failed
