"""Drains one slot with the real relay in this process and prints one JSON line: seconds, CPU, peak RSS.

    python -m tests.bench.drain walrelay.yaml 16/B374D848

The clock runs from the start of streaming to the confirmation of the position: what pg_recvlogical's own run is, too,
whose start takes ten milliseconds. Importing Python's modules is not part of it.
"""

import json
import resource
import sys
from pathlib import Path
from threading import Event
from time import monotonic, process_time

from walrelay import compose
from walrelay.config import load
from walrelay.lsn import LSN
from walrelay.observe import Observer


class _Stopwatch(Observer):
    """Stops the relay once everything before `end` is confirmed."""

    def __init__(self, end: LSN) -> None:
        self.stop = Event()
        self.messages = 0
        self.seconds = self.cpu = 0.0
        self._end = end

    def streaming(self, slot: str, start: LSN, plugin: str) -> None:
        self._began, self._cpu = monotonic(), process_time()

    def read(self, records: int, messages: int) -> None:
        self.messages += messages

    def confirmed(self, lsn: LSN, unsettled: int) -> None:
        if lsn >= self._end:
            self.seconds, self.cpu = monotonic() - self._began, process_time() - self._cpu
            self.stop.set()


def main(config: str, end: str) -> None:
    watch = _Stopwatch(LSN.parse(end))
    compose.relay_until(watch.stop, load(Path(config)), watch)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {"messages": watch.messages, "seconds": watch.seconds, "cpu": watch.cpu, "peak_rss_bytes": peak}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
