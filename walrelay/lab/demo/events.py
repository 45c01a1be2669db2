"""The events of the demo and its tally: orders, what writer and reader tell, what was committed and what arrived. No
I/O.
"""

import json
import random
from collections import deque
from collections.abc import Iterator
from itertools import count
from queue import SimpleQueue
from typing import Any, NamedTuple

_STEPS = ("OrderPlaced", "OrderPaid", "OrderPacked", "OrderShipped", "OrderDelivered")
_CUSTOMERS = ("Ada", "Edgar", "Grace", "Michael", "Barbara", "Jim", "Margaret", "Leslie", "Radia", "Niklaus")
_ARTICLES = ("teapot", "espresso cups", "desk lamp", "wool blanket", "fountain pen", "bread knife", "bicycle bell")
_LINES = range(12, 17)  # an order: an event is of the usual size, about a kilobyte
_OPEN_ORDERS = 5
_OUT_OF = 20  # one change in so many is rolled back


class OrderLine(NamedTuple):
    """A line of an order."""

    article: str
    quantity: int
    price: float


class Order(NamedTuple):
    """The aggregate: its id is the key of its events."""

    id: str
    customer: str
    lines: tuple[OrderLine, ...]

    @property
    def total(self) -> float:
        return round(sum(line.quantity * line.price for line in self.lines), 2)


class Change(NamedTuple):
    """The next step of an order, or an attempt at it that ends in ROLLBACK."""

    order: Order
    step: int  # from 1; consumers see 1, 2, 3 ... of each order
    rolled_back: bool

    @property
    def type(self) -> str:
        return _STEPS[self.step - 1]

    @property
    def status(self) -> str:
        return self.type.removeprefix("Order").lower()

    @property
    def payload(self) -> str:
        """The event's JSON."""
        order = self.order
        lines = [line._asdict() for line in order.lines]
        return json.dumps({"step": self.step, "customer": order.customer, "total": order.total, "lines": lines})


def changes(counter: str, committed: int) -> Iterator[Change]:
    """Changes of several orders at a time, `committed` of them not rolled back; `counter` begins the orders' ids."""
    chance = random.Random(counter)
    orders = (_order(f"{counter}-{number}", chance) for number in count(1001))
    open_orders = [(next(orders), 1) for _ in range(_OPEN_ORDERS)]
    while committed:
        place = chance.randrange(_OPEN_ORDERS)
        order, step = open_orders[place]
        rolled_back = chance.randrange(_OUT_OF) == 0
        yield Change(order, step, rolled_back)
        if rolled_back:
            continue
        committed -= 1
        open_orders[place] = (order, step + 1) if step < len(_STEPS) else (next(orders), 1)


def _order(name: str, chance: random.Random) -> Order:
    lines = (
        OrderLine(chance.choice(_ARTICLES), chance.randint(1, 9), _price(chance)) for _ in range(chance.choice(_LINES))
    )
    return Order(name, chance.choice(_CUSTOMERS), tuple(lines))


def _price(chance: random.Random) -> float:
    return chance.randrange(250, 10_000) / 100


class Inserted(NamedTuple):
    """COMMIT returned at that time: Unix time in nanoseconds, as everywhere here."""

    id: str
    change: Change
    at_ns: int


class RolledBack(NamedTuple):
    """An outbox row was written and its transaction rolled back: the event must not arrive."""

    id: str


class Delivered(NamedTuple):
    """The consumer got a message: the id header, the key, and the step from the payload."""

    id: str
    key: str
    step: int
    at_ns: int


class WriterDone(NamedTuple):
    """Nothing more will be written."""


class Failed(NamedTuple):
    """Writer or reader gave up."""

    who: str
    error: Exception


Item = Inserted | RolledBack | Delivered | WriterDone | Failed
News = SimpleQueue[Item]


_RECENT = 1000  # arrivals over which the running percentiles go


class LatencyQuantiles(NamedTuple):
    """From COMMIT's return to the consumer's hands, in milliseconds."""

    p50: float
    p99: float
    max: float


class Result(NamedTuple):
    """What came of a tour. `uncommitted`: arrivals of events that no transaction committed."""

    events: int
    lost: int
    duplicates: int
    out_of_order: int
    rolled_back: int
    uncommitted: int
    latency_ms: LatencyQuantiles
    events_per_second: float

    @property
    def kept(self) -> bool:
        """Whether the relay kept its promise. A repetition is within it: delivery is at least once."""
        return not (self.lost or self.out_of_order or self.uncommitted)

    def json(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "lost": self.lost,
            "duplicates": self.duplicates,
            "out_of_order": self.out_of_order,
            "latency_ms": self.latency_ms._asdict(),
            "events_per_second": self.events_per_second,
        }


class DemoTally:
    """An event may well arrive before the writer has heard that its COMMIT is done; its latency then counts as 0."""

    def __init__(self) -> None:
        self.rolled_back = self.duplicates = self.out_of_order = 0
        self._committed: dict[str, int] = {}
        self._arrived: dict[str, int] = {}
        self._reached: dict[str, int] = {}  # by key, the highest step that arrived
        self._latencies: list[int] = []
        self._recent: deque[int] = deque(maxlen=_RECENT)

    @property
    def committed(self) -> int:
        return len(self._committed)

    @property
    def arrived(self) -> int:
        """Committed events that arrived, each counted once."""
        return len(self._latencies)

    @property
    def recent(self) -> LatencyQuantiles:
        return _latency(self._recent)

    def commit(self, commit: Inserted) -> float | None:
        """Returns the latency in milliseconds if the event has already arrived."""
        self._committed[commit.id] = commit.at_ns
        return self._matched(commit.id)

    def rollback(self) -> None:
        self.rolled_back += 1

    def arrive(self, arrival: Delivered) -> float | None:
        """Returns the latency in milliseconds; None for a repetition, and until its COMMIT is known to be done."""
        if arrival.id in self._arrived:
            self.duplicates += 1
            return None
        self._arrived[arrival.id] = arrival.at_ns
        if arrival.step < self._reached.get(arrival.key, 0):
            self.out_of_order += 1
        else:
            self._reached[arrival.key] = arrival.step
        return self._matched(arrival.id)

    def result(self) -> Result:
        return Result(
            events=self.committed,
            lost=self.committed - self.arrived,
            duplicates=self.duplicates,
            out_of_order=self.out_of_order,
            rolled_back=self.rolled_back,
            uncommitted=len(self._arrived) - self.arrived,
            latency_ms=_latency(self._latencies),
            events_per_second=self._rate(),
        )

    def _matched(self, event: str) -> float | None:
        committed, arrived = self._committed.get(event), self._arrived.get(event)
        if committed is None or arrived is None:
            return None
        latency = max(0, arrived - committed)
        self._latencies.append(latency)
        self._recent.append(latency)
        return latency / 1e6

    def _rate(self) -> float:
        if not self.arrived:
            return 0.0
        seconds = (max(self._arrived.values()) - min(self._committed.values())) / 1e9
        return round(self.arrived / max(seconds, 1e-3), 1)


def _latency(nanoseconds: "list[int] | deque[int]") -> LatencyQuantiles:
    """Percentiles by the nearest rank: each is a latency that was measured."""
    ordered = sorted(nanoseconds)
    if not ordered:
        return LatencyQuantiles(0.0, 0.0, 0.0)
    ranks = (-(-len(ordered) * percent // 100) for percent in (50, 99, 100))
    return LatencyQuantiles(*(round(ordered[rank - 1] / 1e6, 3) for rank in ranks))
