"""What a relay's process knows of it, for whoever asks: its numbers, and the last events."""

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from math import ceil
from time import monotonic, time
from typing import Any

from walrelay.control.recent import EventRing
from walrelay.observe import Acknowledged, Confirmed, Happening, Observer, Relayed, Settled, Streaming, Turned
from walrelay.observe.numbers import Hindrance, RelayNumbers
from walrelay.wiring import Wiring

_SAMPLES = 1_024  # settled transactions, and sizes of transactions, of which percentiles are made
_LATELY = 60.0  # seconds; how fast it was before says nothing of now
_MOST = 2_000_000  # characters of events in an answer


class ActivityObserver:
    """An observer of one relay, which costs next to nothing while nobody asks."""

    def __init__(self, wiring: Wiring, instance: str, watchers: Iterable[Observer] = ()) -> None:
        """`watchers`: the relay's other observers. If its numbers are among them, it needs no others."""
        several = "" not in wiring.sink.kinds
        known = next((each for each in watchers if isinstance(each, RelayNumbers)), None)
        self._numbers = known or RelayNumbers(wiring.slot, several_sinks=several, exact=False)
        self._counts = known is None
        self._slot, self._instance, self._keep = wiring.slot, instance, wiring.events.keep
        self._events = EventRing(wiring.events, several_sinks=several, clock=time)
        self._latencies = deque[tuple[float, float]](maxlen=_SAMPLES)  # when, by `monotonic`, and the seconds
        self._rows = deque[int](maxlen=_SAMPLES)

    def saw(self, happening: Happening) -> None:
        if self._counts:
            self._numbers.saw(happening)
        kind = type(happening)
        if kind is Relayed:  # these happen all the time
            self._relayed(happening)  # type: ignore[arg-type]
        elif kind is Turned:
            self._events.idle()
        elif kind is not Acknowledged:
            self._seldom(happening)

    def _relayed(self, turn: Relayed) -> None:
        self._rows.extend(turn.sizes)
        if self._keep:
            self._events.add(turn)

    def _seldom(self, happening: Happening) -> None:
        match happening:
            case Settled(since_commit, _, commit_lsn):
                self._latencies.append((monotonic(), since_commit))
                self._events.acknowledged(commit_lsn)
            case Confirmed(lsn):
                self._events.confirmed(lsn)
            case Streaming(_, start):
                self._events.streaming(start)

    def answer(self, after: int | None) -> str:
        """JSON. `after`: with the events that have later numbers; None: without events. For any thread."""
        told = json.dumps(self._told())
        if after is None:
            return told
        return f'{told[:-1]}, "after": {after}, "events": [{", ".join(self._events_after(after))}]}}'

    def _told(self) -> dict[str, Any]:
        numbers = self._numbers
        sent = numbers.sent
        since = monotonic() - _LATELY
        latencies = [seconds for at, seconds in self._latencies.copy() if at > since]
        letters, error, now = numbers.dead_letters, numbers.last_error, monotonic()
        return {
            "slot": self._slot,
            "instance": self._instance,
            "at": time(),
            "since": numbers.began_at,
            "state": numbers.state,
            "records": numbers.records,
            "published": numbers.published,
            "published_bytes": sum(each.size for each in sent.values()),
            "confirmed_lsn": str(numbers.confirmed) if numbers.confirmed else None,
            "in_flight": numbers.in_flight,
            "back_pressure_seconds": numbers.back_pressure,
            "registry_wait_seconds": numbers.registry_wait,
            "retries": sum(numbers.retries.copy().values()),
            "dead_lettered": sum(letters.copy().values()),
            "dropped": sum(numbers.drops.copy().values()),
            "skipped": numbers.skipped,
            "latency": _percentiles(latencies),
            "stalled": _hindrance(numbers.hindrance, now),
            "last_error": error and error.text,
            "last_error_at": error and error.at,
            "rules": [{"rule": rule, "dropped": count} for rule, count in numbers.drops.copy().items()],
            "topics": [
                {"sink": sink, "topic": topic, "messages": each.messages, "bytes": each.size}
                for (sink, topic), each in sent.items()
            ],
            "transaction_rows": _percentiles([*self._rows.copy()]),
            "kept": self._events.kept,
            "last_event": self._events.last,
        }

    def _events_after(self, after: int) -> Iterator[str]:
        """As many of the latest as an answer may hold. Each by itself, so that other threads get a turn."""
        size = 0
        for event in self._events.after(after):
            text = json.dumps(event)
            size += len(text)
            if size > _MOST:
                break
            yield text


def _percentiles(values: Collection[float]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    return {name: ordered[ceil(share * len(ordered)) - 1] for name, share in (("p50", 0.5), ("p99", 0.99))}


def _hindrance(found: Hindrance | None, now: float) -> dict[str, Any] | None:
    return None if found is None else {"by": found.by, "since": time() - (now - found.since), "why": found.why}
