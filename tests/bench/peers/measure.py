"""What the three measurements share: how big they are, what they find, how long they wait for a peer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import NamedTuple

from tests.bench.peers.consumer import Arrivals
from tests.bench.peers.deliveries import Delivered
from tests.bench.peers.running import Running

_LOOK_EVERY = 0.05


@dataclass(frozen=True)
class Plan:
    """The size of everything. Times are in seconds."""

    rows: int = 500_000  # of the backlog
    cap: float = 240.0  # of draining it; the rate is of what came by then
    rate: float = 200.0  # commits a second, for the latency
    seconds: float = 20.0
    idle_seconds: float = 5.0
    kill_rate: float = 1000.0
    kill_seconds: float = 10.0
    kill_after: float = 3.0


@dataclass(frozen=True)
class Patience:
    """How long a peer is waited for, in seconds."""

    first: float = 90.0  # for its first event
    silence: float = 60.0  # for the next one
    cap: float = 240.0  # for all


@dataclass(frozen=True)
class Found:
    """One measurement's numbers by name, and what a reader has to know beside them."""

    values: dict[str, float]
    notes: list[str] = field(default_factory=list)


class Failed(Exception):
    """A peer did not deliver what can be measured; the message is the reason that the report gives."""


class Shortfall(NamedTuple):
    """Why nobody waits any longer for events that did not arrive."""

    reason: str
    still_coming: bool = False  # it was slow, and nothing says that they are lost


def wait_for_events(arrivals: Arrivals, run: Running, wanted: int, patience: Patience) -> Shortfall | None:
    """Until so many different events arrived, since the consumer's start; None when they did."""
    began = progressed = monotonic()
    before = seen = arrivals.count()
    while seen < wanted:
        limit = patience.first if seen == before else patience.silence
        if run.exit_code is not None:
            return Shortfall(f"it ended by itself with exit code {run.exit_code}")
        if monotonic() - progressed > limit:
            return Shortfall(f"nothing {'' if seen == before else 'more '}arrived for {limit:g} s")
        if monotonic() - began > patience.cap:
            return Shortfall(f"stopped after {patience.cap:g} s", still_coming=True)
        sleep(_LOOK_EVERY)
        seen, last = arrivals.count(), seen
        if seen > last:
            progressed = monotonic()
    return None


def warm_up(arrivals: Arrivals, run: Running) -> None:
    """Until the first event arrived."""
    if short := wait_for_events(arrivals, run, 1, Patience()):
        raise Failed(f"the first event: {short.reason}")


def remarks(delivered: Delivered) -> Iterator[str]:
    """What should never be, and what explains a disorder."""
    if delivered.spread_keys:
        yield f"{delivered.spread_keys:,} keys have events in more than one partition"
    if delivered.strange:
        yield f"{delivered.strange:,} events arrived that were never committed"
