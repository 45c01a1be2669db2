"""Which instance is to lead which relay, and what each does about it. Pure.

Every instance computes the same shares from the same candidates, so none has to be told. Where two see different
candidates for a moment, they want different things, and only the lock of the lead decides: an instance gives a relay up
only to one that waits for it, and takes one that is not its own only if nobody has led it for a while.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from hashlib import sha256
from math import inf
from typing import Literal

from walrelay.postgres.candidates import Look

GRACE = 3.0  # seconds without a leader after which the next instance stands in; the one after that waits twice as long
STAY = 30.0  # seconds for which it then stays: whoever failed to lead may fail again


def shares(candidates: Mapping[str, Collection[int]]) -> dict[str, int]:
    """The instance that each relay is for: rendezvous hashing, in which an instance takes no more than its share.

    The pairs of relay and instance are served by score, so when an instance comes or goes, few relays move that need
    not. If all instances are candidates for all relays, their numbers of relays differ by at most one. A relay without
    candidates is for nobody.
    """
    pairs = [(_score(relay, each), relay, each) for relay, there in candidates.items() for each in there]
    instances = {instance for _, _, instance in pairs}
    least, more = divmod(sum(bool(there) for there in candidates.values()), max(1, len(instances)))
    taken, made = Counter[int](), dict[str, int]()
    for _, relay, instance in sorted(pairs, reverse=True):
        room = taken[instance] < least or (taken[instance] == least and more > 0)
        if relay not in made and room:
            more -= taken[instance] == least
            taken[instance] += 1
            made[relay] = instance
    for relay, there in candidates.items():
        if there and relay not in made:  # its few candidates have their share already
            made[relay] = min(there, key=lambda each: (taken[each], each))
            taken[made[relay]] += 1
    return made


def rank(relay: str, me: int, owner: int | None, candidates: Collection[int]) -> int:
    """The place of this instance among those that would stand in for the owner; 1 is the first. At most 4: not all of
    the candidates may be what they seem.
    """
    mine = _score(relay, me)
    return min(4, 1 + sum(_score(relay, each) > mine for each in candidates if each not in (me, owner)))


@lru_cache(100_000)
def _score(relay: str, instance: int) -> bytes:
    return sha256(f"{instance} {relay}".encode()).digest()


class Duty:
    """What this instance does about one relay."""

    def __init__(self) -> None:
        self._free_since = inf  # since when nobody has led the relay, or not for GRACE seconds: who leads may soon fail
        self._led_since = inf
        self._stays_until = -inf

    def due(
        self, look: Look, now: float, *, running: bool, mine: bool, rank: int
    ) -> Literal["begin", "stand in", "give up", ""]:
        """`now` in seconds; `running`: the relay has been begun here; `mine`: it is of this instance's share."""
        free = not look.led and not look.awaited
        self._led_since = inf if free else min(self._led_since, now)
        if free:
            self._free_since = min(self._free_since, now)
        elif now - self._led_since >= GRACE:
            self._free_since = inf
        if running:
            given_up = look.awaited and not mine and now >= self._stays_until
            return "give up" if given_up else ""
        if mine:
            self._stays_until = -inf
            return "begin"
        if free and now - self._free_since >= rank * GRACE:
            self._stays_until = now + STAY
            return "stand in"
        return ""
