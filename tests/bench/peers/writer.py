"""Commits events at a steady rate in a process of its own, one a transaction, each due at a time fixed beforehand.

It prints a line an event when the last one is committed:

    number <tab> Unix time that its latency counts from <tab> Unix time of COMMIT's return
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import sleep, time
from typing import NamedTuple

import psycopg

from tests.bench.peers.contract import Outbox
from tests.bench.peers.deliveries import counts_from
from tests.bench.peers.workload import statement

LEAD = 1.0
"""Seconds from the start of the process to its first commit: it has to import and connect."""

_PATIENCE = 600.0


@dataclass(frozen=True)
class Task:
    """`events` commits at `rate` a second, numbered from `first` on, the first of them due at `begin`."""

    dsn: str
    insert: str
    first: int
    events: int
    rate: float
    begin: float


class Commit(NamedTuple):
    number: int
    since: float
    committed: float


class Writer:
    """A writer at work."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def finish(self) -> list[Commit]:
        """Waits for it, and returns what it committed, in that order."""
        output, _ = self._process.communicate(timeout=_PATIENCE)
        if self._process.returncode != 0:
            raise RuntimeError(f"the writer ended with exit code {self._process.returncode}")
        return [_commit(line) for line in output.splitlines()]


@contextmanager
def writing(task: Task) -> Iterator[Writer]:
    """Writes in the background; what is not committed by the end of the block is not."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.peers.writer", json.dumps(asdict(task))], stdout=subprocess.PIPE, text=True
    )
    try:
        yield Writer(process)
    finally:
        process.kill()
        process.communicate()


def main(task_as_json: str) -> None:
    task = Task(**json.loads(task_as_json))
    sys.stdout.write("".join("\t".join(map(str, commit)) + "\n" for commit in _write(task)))


def _write(task: Task) -> list[Commit]:
    commits = []
    insert = statement(Outbox("", task.insert), "$1", "$1")
    with psycopg.connect(task.dsn, autocommit=True) as connection:
        connection.execute(f"PREPARE emit(bigint) AS {insert}".encode())
        for place in range(task.events):
            due = task.begin + place / task.rate
            sleep(max(0.0, due - time()))
            began = time()
            connection.execute(f"EXECUTE emit({task.first + place})".encode())
            committed = time()
            commits.append(Commit(task.first + place, counts_from(due, began, committed), committed))
    return commits


def _commit(line: str) -> Commit:
    number, since, committed = line.split("\t")
    return Commit(int(number), float(since), float(committed))


if __name__ == "__main__":
    main(*sys.argv[1:])
