"""Which instance is to lead which relay, and what each does about it. Pure.

Every instance computes the same shares from the same candidates, so none has to be told. Where two see different
candidates for a moment, they want different things, and only the lock of the lead decides: an instance gives a relay up
only to one that claims it, and takes one that is not its own only if nobody has led it for a while.

An instance begins and claims a few relays at a time. All at once they would take the same time together, and each of
them all of it; and nobody leads a relay while it begins.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from functools import lru_cache
from hashlib import sha256
from math import inf
from typing import Literal

from walrelay.postgres.candidates import Look

GRACE = 3.0  # seconds without a leader after which the next instance stands in; the one after that waits twice as long
STAY = 30.0  # seconds for which it stays when the owner came back and failed again
AT_ONCE = 8  # relays that an instance begins or claims at a time
PATIENCE = 1.0  # seconds after which one that has not come to stream makes room for the next

Step = Literal["begin", "stand in", "claim", "give up", ""]


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

    def __init__(self, owner: int | None = None) -> None:
        """`owner`: whose share it is. What is known is known of that one; another may do better."""
        self.owner = owner
        self._free_since = inf  # since when nobody has led the relay, or not for GRACE seconds: who leads may soon fail
        self._led_since = inf  # by another
        self._stays_until = -inf
        self._stood_in = False  # and nobody else has led for GRACE seconds since then

    def due(self, look: Look, now: float, *, running: bool, mine: bool, rank: int) -> Step:
        """`now` in seconds; `running`: the relay has been begun here; `mine`: it is of this instance's share."""
        if running:
            self._free_since = self._led_since = inf
            wanted = (look.awaited or look.claimed) and not mine
            return "give up" if wanted and now >= self._stays_until else ""
        free = not look.led and not look.awaited
        self._led_since = inf if free else min(self._led_since, now)
        if free:
            self._free_since = min(self._free_since, now)
        elif now - self._led_since >= GRACE:
            self._free_since, self._stood_in = inf, False
        if mine:
            return "begin" if free else "claim"
        return "stand in" if free and now - self._free_since >= rank * GRACE else ""

    def stands_in(self, now: float) -> None:
        """The owner may only have been slow, so it gets the relay back as soon as it asks; but not a second time."""
        self._stays_until = now + STAY if self._stood_in else now
        self._stood_in = True


class Upcoming:
    """The relays that an instance is about to lead: it has begun them and they do not stream yet, or it claims them."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def admits(self, name: str, now: float) -> bool:
        """Whether this one is among them now. A claim that is not answered soon stays, and takes no room."""
        if name not in self._since:
            if self.busy(now) >= AT_ONCE:
                return False
            self._since[name] = now
        return True

    def begun(self, name: str, now: float) -> None:
        self._since[name] = now

    def done(self, name: str) -> None:
        self._since.pop(name, None)

    def busy(self, now: float) -> int:
        """How many of them take room."""
        return sum(now - since < PATIENCE for since in self._since.values())


def steps(
    duties: MutableMapping[str, Duty],
    looks: Mapping[str, Look],
    owners: Mapping[str, int],
    running: Collection[str],
    me: int,
    upcoming: Upcoming,
    now: float,
) -> Iterator[tuple[str, Step]]:
    """What this instance is to do about each of the relays of `looks`: what nobody leads is begun first. A relay whose
    owner is another than before has a new one of the `duties` then.
    """
    due = dict[str, Step]()
    for name, look in looks.items():
        owner = owners.get(name)
        if name not in duties or duties[name].owner != owner:
            duties[name] = Duty(owner)
        my_rank = rank(name, me, owner, look.candidates)
        due[name] = duties[name].due(look, now, running=name in running, mine=owner == me, rank=my_rank)
    for name, step in sorted(due.items(), key=lambda each: each[1] == "claim"):
        if step in ("begin", "stand in", "claim"):
            if not upcoming.admits(name, now):
                continue
            if step != "claim":
                upcoming.begun(name, now)
            if step == "stand in":
                duties[name].stands_in(now)
        elif name not in running:
            upcoming.done(name)  # it is another's by now
        yield name, step
