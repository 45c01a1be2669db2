"""Which instances are there to lead a slot: each holds a shared advisory lock for it, which pg_locks shows to all.

The lock lives and dies with an instance's connection, as the lead does, so nobody has to be told who is gone. The keys
are two int4: one is made of the slot's name, the other is the instance's number. With the number less 2**31 it is a
claim: whoever leads is to give the slot up, if it is not of its share.
"""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import NamedTuple, Self

from walrelay.postgres.catalog import Catalog
from walrelay.postgres.locks import lock_key

_FROZEN = "20s"  # a connection over which nothing was asked for so long ends, and its instance is no candidate
_ENDS_IF_FROZEN = (
    f"SELECT set_config('idle_session_timeout', '{_FROZEN}', false)"
    " WHERE current_setting('idle_session_timeout', true) IS NOT NULL"  # PostgreSQL 14 and later
)
_LOOK = (
    "SELECT classid::int8, objid::int8, objsubid, granted FROM pg_locks WHERE locktype = 'advisory'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::int8 = ANY(%s)"
)


_CLAIM = 2**31


class Look(NamedTuple):
    """Who was there for a slot at a moment. `led`: something holds the lead; `awaited`: something waits for it;
    `claimed`: an instance asks for it.
    """

    candidates: frozenset[int]
    led: bool
    awaited: bool
    claimed: bool


def candidate_key(slot: str) -> int:
    """The first of the two keys: an int4, the same for every instance."""
    return int.from_bytes(sha256(f"walrelay candidate {slot}".encode()).digest()[:4], signed=True)


def of_candidates(slot: str) -> str:
    """SQL: a condition on rows `l` of pg_locks, one for each instance that is there for the slot."""
    return (
        f"l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = {candidate_key(slot) % 2**32}"
        f" AND l.objid::int8 < {_CLAIM} AND l.granted"
        " AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
    )


class Instances(NamedTuple):
    """How many instances there are for a slot. `standbys`: those that wait for the lead, or would take it."""

    led: bool
    standbys: int


_INSTANCES = (
    "SELECT s.slot, coalesce(bool_or(l.objsubid = 1 AND l.granted), false),"
    " count(*) FILTER (WHERE l.objsubid = 1 AND NOT l.granted), count(*) FILTER (WHERE l.objsubid = 2 AND l.granted)"
    " FROM unnest(%s::text[], %s::int8[], %s::int8[], %s::int8[]) AS s (slot, high, low, candidate)"
    " JOIN pg_locks l ON l.locktype = 'advisory'"
    " AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
    " AND (l.objsubid = 1 AND l.classid::int8 = s.high AND l.objid::int8 = s.low"
    f" OR l.objsubid = 2 AND l.classid::int8 = s.candidate AND l.objid::int8 < {_CLAIM}) GROUP BY s.slot"
)


def instances(catalog: Catalog, slots: Sequence[str]) -> dict[str, Instances]:
    """By slot, in one statement; a slot for which nobody is there is left out."""
    halves = [_halves(lock_key(slot)) for slot in slots]
    keys = [high for high, _ in halves], [low for _, low in halves], [candidate_key(slot) % 2**32 for slot in slots]
    return {
        slot: Instances(led, waiting + max(0, candidates - led))  # who leads a share of relays is a candidate too
        for slot, led, waiting, candidates in catalog.rows(_INSTANCES, [*slots], *keys)
    }


class Candidacy:
    """One instance's locks, and its looks at those of all. `number`: the instance's, in 31 bits.

    Disconnected where the connection is lost; then the instance is a candidate no longer. A connection that was lost
    and that the server still believes in has the same locks: they are shared.
    """

    def __init__(self, dsn: str, number: int) -> None:
        self._catalog, self._number = Catalog(dsn), number
        self._held = set[tuple[int, int]]()
        self._catalog.rows(_ENDS_IF_FROZEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._catalog.close()

    def look(self, slots: Collection[str], willing: Collection[str], claimed: Collection[str] = ()) -> dict[str, Look]:
        """Who is there for each of the slots, after this instance is a candidate for the `willing` and no others, and
        claims the `claimed`.
        """
        wanted = {(candidate_key(slot), self._number) for slot in willing}
        wanted |= {(candidate_key(slot), self._number - _CLAIM) for slot in claimed}
        self._ask("pg_try_advisory_lock_shared", wanted - self._held)
        self._ask("pg_advisory_unlock_shared", self._held - wanted)
        self._held = wanted
        keys = {slot: (_halves(lock_key(slot)), candidate_key(slot) % 2**32) for slot in slots}
        rows = self._catalog.rows(_LOOK, [each for lead, candidate in keys.values() for each in (lead[0], candidate)])
        found: dict[tuple[int, int], set[tuple[int, bool]]] = {}
        for high, low, kind, granted in rows:
            found.setdefault((high, kind), set()).add((low, granted))
        looks = {}
        for slot, ((high, low), candidate) in keys.items():
            there = {number for number, granted in found.get((candidate, 2), ()) if granted}
            looks[slot] = Look(
                frozenset(number for number in there if number < _CLAIM),
                (low, True) in found.get((high, 1), ()),
                (low, False) in found.get((high, 1), ()),
                any(number >= _CLAIM for number in there),
            )
        return looks

    def _ask(self, function: str, keys: set[tuple[int, int]]) -> None:
        if keys:
            pairs = "unnest(%s::int4[], %s::int4[]) each (slot, number)"
            self._catalog.rows(f"SELECT {function}(slot, number) FROM {pairs}", *map(list, zip(*keys, strict=True)))


def _halves(key: int) -> tuple[int, int]:
    """As pg_locks shows an int8."""
    return divmod(key % 2**64, 2**32)
