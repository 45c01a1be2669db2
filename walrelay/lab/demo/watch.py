"""Follows the news until everything has arrived, or has had the time to."""

import json
import time

from walrelay.errors import Fatal
from walrelay.lab.demo.screen import Stream
from walrelay.lab.demo.shop import Change
from walrelay.lab.demo.tally import Arrived, Committed, Failed, Item, News, RolledBack, Tally, WriterDone
from walrelay.lab.demo.writer import COUNTERS
from walrelay.lab.servers.backstage import Child


def relay_failure(relay: Child) -> Fatal:
    """Its own last words and its hint; the end of its log where it left none."""
    for line in reversed(relay.log().splitlines()):
        try:
            event = json.loads(line)
            return Fatal(f"the relay ended: {event['error']}", hint=event["hint"])
        except (ValueError, LookupError, TypeError):
            continue
    return relay.failure("ended")


_INTERVAL = 0.1  # seconds between two looks
_PATIENCE = 15.0  # seconds without an arrival, after which what is missing counts as lost
_LINGER = 0.25  # seconds in which what is on the brokers reaches the consumer


class Watch:
    """Counts in `tally`, shows on `stream`. Fatal when writer, reader or relay fails."""

    def __init__(self, news: News, relay: Child, stream: Stream, patience: float = _PATIENCE) -> None:
        self.tally = Tally()
        self._news, self._relay, self._stream, self._patience = news, relay, stream, patience
        self._greeting = ""
        self._greeted = False
        self._writing = len(COUNTERS)
        self._under_way: dict[str, Change] = {}

    def until_greeted(self, greeting: str) -> None:
        """Until the event of that id has arrived, which is not counted."""
        self._greeting = greeting
        deadline = time.monotonic() + self._patience
        while not self._greeted:
            self._look_after(0.01)
            if time.monotonic() > deadline:
                raise self._relay.failure(f"published nothing within {self._patience:g} s")

    def until_complete(self) -> None:
        """Until every committed event has arrived, or nothing has for too long."""
        arrived, since = -1, time.monotonic()
        while self._writing or self.tally.arrived != self.tally.committed:
            self._look_after(_INTERVAL)
            self._stream.show(self.tally)
            if self.tally.arrived != arrived or self._writing:
                arrived, since = self.tally.arrived, time.monotonic()
            elif time.monotonic() - since > self._patience:
                return

    def linger(self) -> None:
        """For what must not come: repetitions, and events that were never committed. The relay has left."""
        time.sleep(_LINGER)
        self._look()

    def _look_after(self, seconds: float) -> None:
        time.sleep(seconds)
        if not self._relay.running:
            raise relay_failure(self._relay)
        self._look()

    def _look(self) -> None:
        while not self._news.empty():
            self._take(self._news.get())

    def _take(self, item: Item) -> None:
        match item:
            case Arrived(id=event) if event == self._greeting:
                self._greeted = True
            case Arrived(id=event):
                self._matched(event, self.tally.arrive(item))
            case Committed(id=event, change=change):
                self._under_way[event] = change
                self._matched(event, self.tally.commit(item))
            case RolledBack():
                self.tally.rollback()
            case WriterDone():
                self._writing -= 1
            case Failed(who=who, error=error):
                raise Fatal(f"{who} failed: {error}") from error

    def _matched(self, event: str, latency_ms: float | None) -> None:
        if latency_ms is not None:
            self._stream.event(self._under_way.pop(event), latency_ms)
