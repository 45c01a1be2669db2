"""What a list of arrivals says: lost, duplicates, out of order, latencies. Nothing here asks a server or a clock."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tests.bench.peers.consumer import Event

KEYS = 1000

_MARGIN = 0.01  # seconds


def key_of(number: int) -> str:
    """The key that the writers give an event: those of one key were committed in the order of their numbers."""
    return f"order-{number % KEYS}"


class Delivered(NamedTuple):
    """How what arrived compares with what was committed."""

    events: int  # distinct ones
    lost: int
    duplicates: int
    out_of_order: int  # first deliveries that came after a later event of their key
    spread_keys: int  # keys whose events are in more than one partition
    strange: int  # arrived and were never committed


class Latencies(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float
    max: float
    events: int


def compare(committed: Collection[int], arrived: Sequence[Event]) -> Delivered:
    """`committed`: the numbers, in any order; `arrived`: in the order of receipt."""
    wanted = set(committed)
    first = first_deliveries(arrived)
    return Delivered(
        events=len(first),
        lost=len(wanted - first.keys()),
        duplicates=len(arrived) - len(first),
        out_of_order=_out_of_order(first),
        spread_keys=_spread_keys(arrived),
        strange=len(first.keys() - wanted),
    )


def first_deliveries(arrived: Sequence[Event]) -> dict[int, Event]:
    """Number -> its first arrival, in the order of those."""
    first: dict[int, Event] = {}
    for event in arrived:
        first.setdefault(event.number, event)
    return first


def latencies(since: Mapping[int, float], arrived: Sequence[Event]) -> Latencies:
    """From the time that an event counts from to its first receipt; a receipt before COMMIT's return counts as none."""
    first = first_deliveries(arrived)
    millis = sorted(max(0.0, first[number].at - at) * 1000 for number, at in since.items() if number in first)
    return Latencies(percentile(millis, 50), percentile(millis, 99), millis[-1], len(millis))


def counts_from(due: float, began: float, committed: float, grace: float = 0.001) -> float:
    """When an event's latency begins: at COMMIT's return, earlier by as much as the writer began late.

    A writer that waits for a stalled server would otherwise write less just when it hurts. `grace`: a sleep that
    ends late by less is not a stall.
    """
    return committed - max(0.0, began - due - grace)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many percent do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def back_after(killed: float, since: Mapping[int, float], arrived: Sequence[Event]) -> float | None:
    """Seconds from a kill to the first arrival of an event committed after it, which only the restarted peer can send.

    What was under way to the broker or the consumer at the kill still arrives, so the first arrival says nothing. The
    killed peer may even have read an event whose COMMIT had not returned yet, hence the margin.
    """
    after = {number for number, committed in since.items() if committed > killed + _MARGIN}
    return min((event.at - killed for event in arrived if event.number in after), default=None)


def _out_of_order(first: Mapping[int, Event]) -> int:
    highest: dict[str, int] = defaultdict(lambda: -1)
    late = 0
    for number in first:
        key = key_of(number)
        late += number < highest[key]
        highest[key] = max(number, highest[key])
    return late


def _spread_keys(arrived: Sequence[Event]) -> int:
    partitions: dict[str, set[int]] = defaultdict(set)
    for event in arrived:
        partitions[key_of(event.number)].add(event.partition)
    return sum(len(found) > 1 for found in partitions.values())
