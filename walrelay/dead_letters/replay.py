"""Replays dead letters: routed by today's rules, published, and closed only after the receipt.

A wave has at most one dead letter of each key, so that one that is refused again holds back only those behind it. It is
one transaction in PostgreSQL: after a crash its messages are published again, with the same ids.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from time import monotonic
from typing import Literal, NamedTuple

from walrelay.dead_letter import UNDECODABLE
from walrelay.dead_letters import DeadLetterTable, StoredDeadLetter
from walrelay.dead_letters.handling import DeadLetterKey, OrderKey
from walrelay.dead_letters.republishing import NoSuchDestination, Republishing, open_letters, order_keys
from walrelay.dead_letters.wave import Wave
from walrelay.errors import Fatal, StartAnew, Undecodable, Unroutable, WalrelayError
from walrelay.model import Message, Refusal
from walrelay.publish import Sink
from walrelay.publish.expiry import expired, refuse_expired
from walrelay.wiring import Wiring

_WAVE = 200  # dead letters
_WAIT = 0.05  # seconds
_AHEAD = "the relay has not confirmed what is before it; replay it again when the relay has passed it"


class ReplayOutcome(NamedTuple):
    """What came of a dead letter. `why`: it was refused; or it was left, because it is closed, behind another one, or
    ahead of the relay.
    """

    id: int
    outcome: Literal["replayed", "refused", "left"]
    why: str = ""


class DeadLetterReplay:
    """Publishes dead letters of `table`. `open_sink` opens another sink after a refusal that ended one; `by`: who
    replays; `patience`: seconds without a receipt until the replay fails; `block_key`: whether the relay keeps the
    later messages of a dead letter's key behind it; `in_groups`: whether it publishes exactly once, so that a dead
    letter is durable before the messages of its group; `sink_of`: see `SinkHandle.sink_of`; `refuse_old`: Fatal where
    a topic deletes messages of that age at once, by the time of the oldest for each topic.
    """

    def __init__(
        self,
        table: DeadLetterTable,
        republishing: Republishing,
        open_sink: Callable[[], Sink],
        by: str,
        patience: float = 30.0,
        *,
        block_key: bool = False,
        in_groups: bool = False,
        sink_of: Callable[[str | None], str] | None = None,
        refuse_old: Callable[[Mapping[str, int]], None] | None = None,
    ) -> None:
        self._table, self._republishing, self._open, self._by = table, republishing, open_sink, by
        self._patience, self._block_key = patience, block_key
        self._in_groups, self._sink_of, self._refuse_old = in_groups, sink_of, refuse_old

    def replay(self, ids: Sequence[int], statuses: Sequence[str]) -> Iterator[ReplayOutcome]:
        """Replays dead letters in order, if they have one of these statuses; yields what came of each. Fatal, before
        anything is published, where a topic would delete one of them at once.
        """
        if self._refuse_old is not None:
            self._refuse_old(self.oldest(ids))
        left = self._with_keys_as_edited(self._table.keys(ids))
        self._behind = dict[int, list[int]]()
        if self._block_key:
            left = self._with_keys_of_today(left)
        stuck = set[OrderKey]()
        while left:
            wave, left = _wave(left)
            free = [each for each in wave if stuck.isdisjoint(each.order_keys)]
            why = "an earlier dead letter of its key was refused"
            yield from (ReplayOutcome(each.id, "left", why) for each in wave if each not in free)
            for outcome in self._publish(free, statuses):
                if outcome.outcome == "refused":
                    stuck.update(*(each.order_keys for each in free if each.id == outcome.id))
                yield outcome

    def oldest(self, ids: Sequence[int]) -> dict[str, int]:
        """The time of the oldest message for each topic, in microseconds since 1970, as a replay would publish it."""
        found = dict[str, int]()
        for stored in self._table.letters(ids):
            try:
                messages = self._republishing.messages(stored)
            except (Unroutable, Undecodable):
                continue  # it will be refused
            for topic, at in [(each.topic, each.timestamp_ms * 1000) for each in messages if each.timestamp_ms > 0]:
                found[topic] = min(found.get(topic, at), at)
        return found

    def _with_keys_as_edited(self, keys: Sequence[DeadLetterKey]) -> list[DeadLetterKey]:
        edited = [each.id for each in keys if each.edited]
        found = {stored.id: self._keys_of_messages(stored) for stored in self._table.letters(edited)}
        return [each._replace(as_edited=found.get(each.id, frozenset())) for each in keys]

    def _with_keys_of_today(self, keys: Sequence[DeadLetterKey]) -> list[DeadLetterKey]:
        """Also finds out which blocked ones wait for letters of another topic or key, by today's rules."""
        by_then, by_now = dict[OrderKey, list[int]](), dict[OrderKey, list[int]]()
        wanted, found = {each.id for each in keys}, dict[int, frozenset[OrderKey]]()
        for each in open_letters(self._table, self._republishing):
            if each.status == "blocked" and each.id in wanted:
                behind = [id_ for key in (each.then, *each.now) for id_ in by_now.get(key, ())]
                behind += [id_ for key in each.now for id_ in by_then.get(key, ())]
                if behind:
                    self._behind[each.id] = behind
            by_then.setdefault(each.then, []).append(each.id)
            for key in each.now:
                by_now.setdefault(key, []).append(each.id)
            found[each.id] = each.now
        return [each._replace(as_edited=each.as_edited | found.get(each.id, frozenset())) for each in keys]

    def _keys_of_messages(self, stored: StoredDeadLetter) -> frozenset[OrderKey]:
        try:
            return order_keys(self._republishing.messages(stored))
        except (Unroutable, Undecodable):
            return frozenset()  # it will be refused

    def _publish(self, batch: Sequence[DeadLetterKey], statuses: Sequence[str]) -> list[ReplayOutcome]:
        outcomes: dict[int, ReplayOutcome] = {}
        failed: WalrelayError | None = None
        known = {each.id: each.order_keys for each in batch}
        with self._table.locked(batch, statuses) as letters:
            waiting: dict[int, Sequence[Message]] = {}
            ahead = self._table.ahead_of_the_relay([each.id for each in letters]) if self._in_groups else ()
            for stored in letters:
                if stored.id in ahead:
                    outcomes[stored.id] = ReplayOutcome(stored.id, "left", _AHEAD)
                    continue
                first = self._table.first_open_among(self._behind.get(stored.id, ()))
                if first is not None:
                    why_not = f"by today's rules it waits behind dead letter {first}"
                    outcomes[stored.id] = ReplayOutcome(stored.id, "left", why_not)
                    continue
                try:
                    messages = self._republishing.messages(stored)
                    if why_not := self._why_not_now(stored, messages, known[stored.id]):
                        outcomes[stored.id] = ReplayOutcome(stored.id, "left", why_not)
                    else:
                        waiting[stored.id] = messages
                except NoSuchDestination as why:
                    outcomes[stored.id] = ReplayOutcome(stored.id, "left", f"{why}. {why.hint}")
                except (Unroutable, Undecodable) as why:
                    error = UNDECODABLE if isinstance(why, Undecodable) else "unroutable"
                    self._table.refused(stored.id, error, str(why))
                    outcomes[stored.id] = ReplayOutcome(stored.id, "refused", str(why))
            wave = Wave(waiting)
            try:
                while wave.owed:  # with a new sink where a refusal or StartAnew ended one
                    self._once(wave)
            except WalrelayError as error:  # a broker that is away: what others acknowledged must not go out again
                failed = error
            whole = {stored.id: stored for stored in letters if stored.id in waiting}
            outcomes |= {each.id: each for each in self._closed(wave, whole)}
        if failed is not None:
            raise failed
        closed = "it is closed, or waits behind another dead letter of its key"
        return [outcomes.get(each.id, ReplayOutcome(each.id, "left", closed)) for each in batch]

    def _why_not_now(self, stored: StoredDeadLetter, messages: Sequence[Message], known: frozenset[OrderKey]) -> str:
        """Why an edited one may not be published now; empty if it may. The table has looked at the key that was
        refused.
        """
        keys = order_keys(messages) if stored.edit else frozenset()
        if not keys <= known:
            return "it was edited meanwhile; replay it again"
        if self._block_key:
            for topic, key in sorted(keys):
                first = self._table.first_open_before(stored.place, topic, key)
                if first is not None and (topic, key) != (stored.letter.topic, stored.letter.key):
                    return f"under the key that it has as edited it waits behind dead letter {first}"
        return ""

    def _closed(self, wave: Wave, letters: Mapping[int, StoredDeadLetter]) -> Iterator[ReplayOutcome]:
        """Closes what was published. Of a record some of whose messages were published, each of the others becomes a
        dead letter of its own.
        """
        closed = []
        for id_, (acknowledged, others) in wave.outcomes():
            refused = [each for each in others if each.error]
            if acknowledged:
                closed.append(id_)
                for message, error, reason in others:
                    letter = letters[id_].letter
                    own = message._replace(headers=message.headers[:-1])  # without that of a replay
                    of_sink = None if self._sink_of is None else self._sink_of(own.topic)
                    self._table.split(id_, own, error or letter.error, reason or letter.reason, of_sink)
            elif refused:
                self._table.refused(id_, refused[0].error, refused[0].reason)
            if refused:
                yield ReplayOutcome(id_, "refused", refused[0].reason)
            elif acknowledged:
                yield ReplayOutcome(id_, "replayed")
        self._table.replayed(closed, self._by)

    def _once(self, wave: Wave) -> None:
        """Publishes as many as one sink accepts."""
        with closing(self._open()) as sink, suppress(StartAnew):
            offers = wave.offers()
            moved, ended = monotonic(), False
            while wave.owed and not ended:
                while offers and sink.publish(*offers[0]):
                    offers.pop(0)
                sink.flush(_WAIT)
                for heard in sink.receipts(_WAIT):
                    moved = monotonic()
                    ended |= isinstance(heard, Refusal) and heard.ends
                    wave.hear(heard)
                if monotonic() - moved > self._patience:
                    why = sink.trouble() or "it does not say why"
                    raise Fatal(
                        f"the broker has given no receipt for {self._patience:g} s: {why}",
                        hint="What has no receipt stays a dead letter. Replay again when the broker answers.",
                    )


def dead_letter_replay(
    wiring: Wiring, table: DeadLetterTable, by: str, instead: str | None = None, *, even_expired: bool = False
) -> DeadLetterReplay:
    """Replay by the rules of the relay, to its sinks. `instead`: see `Republishing`. `even_expired`: also to topics
    that delete messages of that age at once.
    """
    asks = wiring.sink.may_expire and not even_expired
    republishing = Republishing(wiring.router(table.catalog).route, instead)
    return DeadLetterReplay(
        table,
        republishing,
        wiring.sink.open,
        by,
        block_key=wiring.policy.block_key,
        in_groups=wiring.exactly_once,
        sink_of=wiring.sink.sink_of,
        refuse_old=(lambda oldest: refuse_expired(expired(wiring.sink, oldest))) if asks else None,
    )


def _wave(left: Sequence[DeadLetterKey]) -> tuple[list[DeadLetterKey], list[DeadLetterKey]]:
    """The first dead letter of each key, and what is left for later waves; both in order."""
    wave: list[DeadLetterKey] = []
    later: list[DeadLetterKey] = []
    taken = set[OrderKey]()
    for each in left:
        fits = len(wave) < _WAVE and taken.isdisjoint(each.order_keys)
        (wave if fits else later).append(each)
        taken |= each.order_keys
    return wave, later
