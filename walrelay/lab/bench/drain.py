"""None"""

import sys
from pathlib import Path
from threading import Event

from walrelay import config
from walrelay.compose import Runs
from walrelay.errors import Fatal, WalrelayError
from walrelay.lab.bench.child import Clock, run, tell
from walrelay.lsn import LSN
from walrelay.observe import Observer


class UntilDrained(Observer):
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


def main(file: str, end: str) -> None:
    """One run, without a second try: what broke off has no speed."""
    watch = UntilDrained(LSN.parse(end))
    try:
        # The backlog is read again and again from its beginning, and a position in Kafka is of the time before.
        Runs(config.load(Path(file)), watch, from_slot=True).run(watch.stop.is_set)
    except WalrelayError as error:
        sys.exit(f"{error}\n{error.hint if isinstance(error, Fatal) else ''}")
    tell(watch.events, watch.clock)


if __name__ == "__main__":
    run(main, *sys.argv[1:])
