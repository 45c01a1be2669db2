"""A database looked at again and again: its relays at a glance, what their leaders tell, and which need somebody."""

from collections.abc import Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from walrelay.control.asking import Percentiles, Rates, RelayActivity, activity, rates
from walrelay.dead_letters.counts import waiting_of
from walrelay.errors import Fatal
from walrelay.operations.overview.glance import RelayGlance, glance
from walrelay.operations.overview.judgement import Judgement, judged
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.wal_pace import WalPace

_ANSWER, _UNANSWERED = 1.0, 10.0  # seconds for leaders to answer, and until one is asked again that did not
_COUNTED = 5.0  # seconds for which the number of dead letters is good


class SeenRelay(NamedTuple):
    """A relay at a look. `live`, `rates`, `in_flight` and `latency`: None where its leader does not tell, or nothing
    was published. `safe_seconds`: until its slot is lost at the present rate of WAL; None: it is not.
    """

    seen: RelayGlance
    judgement: Judgement
    live: RelayActivity | None = None
    rates: Rates | None = None
    safe_seconds: float | None = None
    in_flight: int | None = None
    latency: Percentiles | None = None

    def as_json(self) -> dict[str, Any]:
        live, rated = self.live, self.rates
        return {
            **self.seen.as_json(),
            "level": self.judgement.level,
            "why": self.judgement.why,
            "todo": self.judgement.todo,
            "safe_seconds": self.safe_seconds,
            "published_per_second": rated and rated.published,
            "bytes_per_second": rated and rated.bytes,
            "in_flight": self.in_flight,
            "latency": self.latency and self.latency._asdict(),
            "stalled": live and live.stalled and live.stalled._asdict(),
        }


class DatabaseLook:
    """What is remembered from look to look: rates are differences, and dead letters take long to count."""

    def __init__(self, pace: WalPace) -> None:
        self._pace = pace
        self._before: Mapping[str, RelayActivity] = {}
        self._rates: dict[str, Rates | None] = {}
        self._silent_until: dict[str, float] = {}
        self._letters: Mapping[str, int] | None = None
        self._counted_at, self._counted_of = -inf, frozenset[str]()

    def look(self, catalog: Catalog, names: Mapping[str, str]) -> list[SeenRelay]:
        """These relays, names by slot, and every other that walrelay.relays has."""
        self._pace.look(catalog)
        found = glance(catalog, dict(names), without_table=True, letters=self._count)
        live = self._ask_leaders(catalog, [each.slot for each in found if each.instance is not None])
        return [self._seen(each, live.get(each.slot)) for each in found]

    def _ask_leaders(self, catalog: Catalog, slots: Sequence[str]) -> Mapping[str, RelayActivity]:
        """One that gives no answer is of an earlier version, or frozen; it is not waited for again soon."""
        now = monotonic()
        asked = [slot for slot in slots if self._silent_until.get(slot, -inf) <= now]
        try:
            answers = activity(catalog, asked, _ANSWER) if asked else {}
        except Fatal:  # there is no table for answers, or it may not be read
            answers = {}
        self._silent_until = {slot: until for slot, until in self._silent_until.items() if until > now}
        self._silent_until |= {slot: now + _UNANSWERED for slot in asked if slot not in answers}
        self._rates = {slot: self._rated(each) for slot, each in answers.items()}
        self._before = answers
        return answers

    def _rated(self, now: RelayActivity) -> Rates | None:
        before = self._before.get(now.slot)
        if before is not None and before.at == now.at:  # an answer that is shared with somebody else who asked
            return self._rates.get(now.slot)
        return rates(before, now)

    def _count(self, catalog: Catalog, slots: Sequence[str]) -> Mapping[str, int] | None:
        now = monotonic()
        if now - self._counted_at >= _COUNTED or not self._counted_of.issuperset(slots):
            self._letters, self._counted_at, self._counted_of = waiting_of(catalog, slots), now, frozenset(slots)
        return self._letters

    def _seen(self, seen: RelayGlance, live: RelayActivity | None) -> SeenRelay:
        per_minute = self._pace.known_per_minute()
        safe = None if seen.safe_bytes is None or not per_minute else seen.safe_bytes / per_minute * 60
        if live is None:
            return SeenRelay(seen, judged(seen, safe), safe_seconds=safe)
        judgement = judged(seen, safe, live.stalled.why if live.stalled is not None else "")
        return SeenRelay(seen, judgement, live, self._rates.get(seen.slot), safe, live.in_flight, live.latency)
