"""Drains the backlog with the real relay in this process and prints one JSON object.

    python -m walrelay.lab.bench.throughput.drain drain.json 16/B374D848

Its settings name the database and the brokers by DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS. The clock runs from the
start of streaming until the position at the end is confirmed; starting Python and importing modules is not part of it.
"""

import json
import resource
import sys
from pathlib import Path
from threading import Event
from time import monotonic, process_time

from walrelay import config
from walrelay.compose import Runs
from walrelay.errors import Fatal, WalrelayError
from walrelay.lab.bench import child, machine
from walrelay.lsn import LSN
from walrelay.observe import Observer


class Clock:
    """Starts when it is made."""

    def __init__(self) -> None:
        self._began, self._cpu = monotonic(), process_time()
        self.seconds = self.cpu_s = 0.0

    def stop(self) -> None:
        self.seconds, self.cpu_s = monotonic() - self._began, process_time() - self._cpu


class Watch(Observer):
    """Stops the relay once everything up to `end` is confirmed."""

    def __init__(self, end: LSN) -> None:
        self._end = end
        self.stop = Event()
        self.events = 0

    def streaming(self, slot: str, start: LSN, plugin: str) -> None:
        self.clock = Clock()

    def read(self, records: int, messages: int) -> None:
        self.events += messages

    def confirmed(self, lsn: LSN, unsettled: int) -> None:
        if lsn >= self._end and not self.stop.is_set():
            self.clock.stop()
            self.stop.set()


def tell(events: int, clock: Clock) -> None:
    """What the process that started this one reads."""
    peak = machine.peak_rss_bytes() or machine.maximum_rss_bytes(resource.getrusage(resource.RUSAGE_SELF))
    found = {"events": events, "seconds": clock.seconds, "cpu_s": clock.cpu_s, "peak_rss_bytes": peak}
    sys.stdout.write(json.dumps(found) + "\n")


def main(file: str, end: str) -> None:
    """One run, without a second try: what broke off has no speed."""
    watch = Watch(LSN.parse(end))
    try:
        # The backlog is read again and again from its beginning, and a position in Kafka is of the time before.
        Runs(config.load(Path(file)), watch, from_slot=True).run(watch.stop.is_set)
    except WalrelayError as error:
        sys.exit(f"{error}\n{error.hint if isinstance(error, Fatal) else ''}")
    tell(watch.events, watch.clock)


if __name__ == "__main__":
    child.run(main, *sys.argv[1:])
