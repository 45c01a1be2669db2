"""What a relay's observers cost its loop, in CPU time of its thread: `python -m tests.bench.watching`.

The frames are made beforehand, and the loop runs over them again and again, watched by other observers each time. The
lowest of many rounds says most, because other processes can only make a round dearer.
"""

import gc
import json
import random
import sys
from collections.abc import Callable, Iterator
from statistics import median
from time import thread_time, time
from typing import cast

from tests import pgoutput_encoder as server
from walrelay import compose
from walrelay.config import Settings
from walrelay.control.activity import ActivityObserver
from walrelay.lsn import LSN, ZERO
from walrelay.observe import Observer, Observers
from walrelay.observe.numbers import RelayNumbers
from walrelay.relay.loop import Relay
from walrelay.source.contract import Source
from walrelay.wire.frames import xlogdata

EVENTS, TRANSACTION, TURN, ROUNDS = 60_000, 10, 85, 25  # rows a transaction and frames a turn, as in a drain
COLUMNS = ("id", "aggregate_type", "aggregate_id", "type", "payload", "headers", "topic", "tenant_id", "created_at")
WIRING = compose.wiring(
    Settings.model_validate({"source": {"dsn": "postgresql:///none"}, "sink": {"kind": "memory", "keep": 0}})
)


def frames() -> Iterator[bytes]:
    payload = json.dumps({"text": "x" * 150}).encode()
    now = int(time() * 1e6)
    yield xlogdata(0, 0, server.relation(7, "public", "outbox", [(name, 25) for name in COLUMNS]))
    for number in range(0, EVENTS, TRANSACTION):
        lsn = 1_000 * (number + 1)
        yield xlogdata(lsn, lsn, server.begin(lsn, committed_at=now))
        for row in range(number, number + TRANSACTION):
            values = [b"%032d" % row, b"order", b"%d" % (row % 1_000), b"Placed", payload, b"{}", None, None, None]
            yield xlogdata(lsn, lsn, server.insert(7, values))
        yield xlogdata(lsn, lsn, server.commit(lsn, lsn + 100, committed_at=now))


class Recorded:
    """A source that has all frames at hand."""

    start = ZERO

    def __init__(self, turns: list[list[bytes]]) -> None:
        self._left = iter(turns)
        self.over = False

    def read(self, timeout: float) -> list[bytes]:
        found = next(self._left, None)
        self.over = found is None
        return found or []

    def wake_by(self, descriptor: int | None) -> None:
        pass

    def confirm(self, lsn: LSN) -> bool:
        return False

    def report_waiting(self, since: int | None) -> None:
        pass

    def leave(self, lsn: LSN) -> None:
        pass


def microseconds(turns: list[list[bytes]], observer: Observer) -> float:
    source = Recorded(turns)
    decoder = WIRING.decoder(WIRING.needed, encoding="UTF8", binary=False)
    relay = Relay(cast("Source", source), decoder, WIRING.rules.router(), WIRING.sink.open(), observer, WIRING.limits)
    gc.collect()
    began = thread_time()
    relay.run(lambda: source.over)
    return (thread_time() - began) / EVENTS * 1e6


def with_metrics() -> Observer:
    numbers = RelayNumbers("slot")
    return Observers(numbers, ActivityObserver(WIRING, "", [numbers]))


OBSERVED: dict[str, Callable[[], Observer]] = {
    "nobody watches": Observers,
    "numbers of metrics alone": lambda: Observers(RelayNumbers("slot")),
    "activity, without metrics": lambda: Observers(ActivityObserver(WIRING, "")),
    "activity, with metrics": with_metrics,
}


def main() -> None:
    every = [*frames()]
    turns = [every[start : start + TURN] for start in range(0, len(every), TURN)]
    found: dict[str, list[float]] = {name: [] for name in OBSERVED}
    for _ in range(ROUNDS):
        for name in random.sample([*OBSERVED], len(OBSERVED)):
            found[name].append(microseconds(turns, OBSERVED[name]()))
    for name, times in found.items():
        sys.stdout.write(f"{name:26} {min(times):.2f} us an event, median {median(times):.2f}\n")


if __name__ == "__main__":
    main()
