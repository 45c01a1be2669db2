"""Asks the admin API all the time, as pages and programs do that watch a relay: `walrelay-admin` of the comparison.

    python -m walrelay.lab.bench.asking port relay rate

Says `ready` on standard output once it is answered. When it is ended it says what came of the requests, as a JSON
object.
"""

import json
import signal
import sys
from collections import Counter
from http.client import HTTPConnection, HTTPException
from itertools import cycle
from threading import Event, Thread
from time import monotonic

from walrelay.lab.bench import child

_AT_ONCE = 16  # connections
_START = 30.0  # seconds in which the API has to answer
_SHOWN = (
    "/me",
    "/overview",
    "/relays",
    "/relays/{relay}",
    "/relays/{relay}/activity",
    "/relays/{relay}/events?limit=50",
    "/relays/{relay}/history?minutes=60",
    "/relays/{relay}/dead-letters",
    "/relays/{relay}/dead-letters/summary",
    "/relays/{relay}/jobs",
    "/relays/{relay}/pause-cost",
)


def ask(port: str, relay: str, rate: str) -> None:
    """Until SIGTERM."""
    stop, answers = Event(), Counter[str]()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    paths = [f"/api/v1{path.format(relay=relay)}" for path in _SHOWN]
    _await(int(port), paths[0])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    begun = monotonic()
    threads = [
        Thread(
            target=_ask,
            args=(
                int(port),
                paths[number % len(paths) :] + paths[: number % len(paths)],
                _AT_ONCE / float(rate),
                stop,
                answers,
            ),
        )
        for number in range(_AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    while not stop.wait(0.2):
        pass
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({"seconds": monotonic() - begun, "answers": dict(answers)}) + "\n")


def _await(port: int, path: str) -> None:
    deadline, pause = monotonic() + _START, Event()
    while True:
        try:
            _answer(HTTPConnection("127.0.0.1", port, timeout=10), path)
            return
        except OSError:
            if monotonic() > deadline:
                raise
            pause.wait(0.1)


def _ask(port: int, paths: list[str], interval: float, stop: Event, answers: Counter[str]) -> None:
    connection, due = HTTPConnection("127.0.0.1", port, timeout=30), monotonic()
    for path in cycle(paths):
        if stop.wait(max(0.0, due - monotonic())):
            break
        due = max(due + interval, monotonic() - 1.0)  # what it could not ask in time it asks soon
        try:
            answers[str(_answer(connection, path))] += 1
        except (OSError, HTTPException) as error:
            answers[type(error).__name__] += 1
            connection.close()
    connection.close()


def _answer(connection: HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    return answer.status


if __name__ == "__main__":
    child.run(ask, *sys.argv[1:])
