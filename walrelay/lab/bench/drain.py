"""A process that drains the backlog once with the real relay, and prints one JSON object."""

import sys
from pathlib import Path
from threading import Event

from walrelay import compose, config
from walrelay.control.activity import ActivityObserver
from walrelay.errors import Fatal, WalrelayError
from walrelay.lab.bench.child import Clock, run, tell
from walrelay.lsn import LSN
from walrelay.observe import Confirmed, Happening, Observers, Relayed, Streaming


class UntilDrained:
    """Stops the relay once everything up to `end` is confirmed."""

    def __init__(self, end: LSN) -> None:
        self._end = end
        self.stop = Event()
        self.events = 0

    def saw(self, happening: Happening) -> None:
        match happening:
            case Streaming():
                self.clock = Clock()
            case Relayed():
                self.events += happening.messages
            case Confirmed() if happening.lsn >= self._end and not self.stop.is_set():
                self.clock.stop()
                self.stop.set()


def main(file: str, end: str) -> None:
    """One run, without a second try: what broke off has no speed."""
    watch, settings = UntilDrained(LSN.parse(end)), config.load(Path(file))
    wiring, observer = compose.wiring(settings), Observers()
    try:
        with compose.monitored(settings, observer) as watching:
            watchers = [*watching.watch("", wiring)]
            watchers.append(ActivityObserver(wiring, "", watchers))  # as `walrelay run` has it
            # The backlog is read again and again from its beginning, and a position in Kafka is of the time before.
            runs = compose.RelayRuns(wiring, Observers(watch, *watchers), from_slot=True)
            runs.run(watch.stop.is_set)
    except WalrelayError as error:
        sys.exit(f"{error}\n{error.hint if isinstance(error, Fatal) else ''}")
    tell(watch.events, watch.clock)


if __name__ == "__main__":
    run(main, *sys.argv[1:])
