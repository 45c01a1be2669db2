"""Replays dead letters: routed by today's rules, published, and closed only after the receipt.

A wave has at most one dead letter of each key, so that one that is refused again holds back only those behind it. It is
one transaction in PostgreSQL: after a crash its messages are published again, with the same ids.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from time import monotonic
from typing import Literal, NamedTuple

from walrelay.dead_letter import UNDECODABLE
from walrelay.dead_letters import DeadLetterTable, StoredDeadLetter
from walrelay.dead_letters.handling import DeadLetterKey
from walrelay.errors import Fatal, StartAnew, Undecodable, Unroutable, WalrelayError
from walrelay.model import REPLAYED, Message, OutboxRecord, Receipt, Refusal, sink_and_topic
from walrelay.publish import Sink
from walrelay.wiring import Wiring

_WAVE = 200  # dead letters
_WAIT = 0.05  # seconds

Route = Callable[[OutboxRecord], Sequence[Message]]


class ReplayOutcome(NamedTuple):
    """What came of a dead letter. `why`: it was refused; or it was left, because it is closed or behind another one."""

    id: int
    outcome: Literal["replayed", "refused", "left"]
    why: str = ""


class DeadLetterReplay:
    """Publishes dead letters of `table`. `open_sink` opens another sink after a refusal that ended one; `by`: who
    replays; `patience`: seconds without a receipt until the replay fails; `sinks`: the names of the relay's sinks, if
    it has several.
    """

    def __init__(
        self,
        table: DeadLetterTable,
        route: Route,
        open_sink: Callable[[], Sink],
        by: str,
        patience: float = 30.0,
        sinks: Collection[str] = (),
    ) -> None:
        self._table, self._route, self._open, self._by, self._patience = table, route, open_sink, by, patience
        self._sinks = sinks

    def replay(self, ids: Sequence[int], statuses: Sequence[str]) -> Iterator[ReplayOutcome]:
        """Replays dead letters in order, if they have one of these statuses; yields what came of each."""
        left = self._table.keys(ids)
        stuck: set[tuple[str | None, bytes | None]] = set()
        while left:
            wave, left = _wave(left)
            free = [each for each in wave if each.order_key not in stuck]
            why = "an earlier dead letter of its key was refused"
            yield from (ReplayOutcome(each.id, "left", why) for each in wave if each not in free)
            for outcome in self._publish(free, statuses):
                if outcome.outcome == "refused":
                    stuck |= {each.order_key for each in free if each.id == outcome.id and each.key is not None}
                yield outcome

    def _publish(self, batch: Sequence[DeadLetterKey], statuses: Sequence[str]) -> list[ReplayOutcome]:
        outcomes: dict[int, ReplayOutcome] = {}
        failed: WalrelayError | None = None
        with self._table.locked(batch, statuses) as letters:
            waiting: dict[int, Sequence[Message]] = {}
            for stored in letters:
                try:
                    waiting[stored.id] = self._messages(stored)
                except (Unroutable, Undecodable) as why:
                    error = UNDECODABLE if isinstance(why, Undecodable) else "unroutable"
                    self._table.refused(stored.id, error, str(why))
                    outcomes[stored.id] = ReplayOutcome(stored.id, "refused", str(why))
            try:
                while waiting:  # with a new sink where a refusal or StartAnew ended one
                    waiting = self._once(waiting, outcomes)
            except WalrelayError as error:  # a broker that is away: what others acknowledged must not go out again
                failed = error
            self._table.replayed([each.id for each in outcomes.values() if each.outcome == "replayed"], self._by)
        if failed is not None:
            raise failed
        closed = "it is closed, or waits behind another dead letter of its key"
        return [outcomes.get(each.id, ReplayOutcome(each.id, "left", closed)) for each in batch]

    def _once(
        self, waiting: dict[int, Sequence[Message]], outcomes: dict[int, ReplayOutcome]
    ) -> dict[int, Sequence[Message]]:
        """Publishes as many as one sink accepts; returns the rest."""
        owed = {id_: len(messages) for id_, messages in waiting.items()}
        with closing(self._open()) as sink, suppress(StartAnew):
            offers = [(message, id_) for id_, messages in waiting.items() for message in messages]
            moved, ended = monotonic(), False
            while owed and not ended:
                while offers and sink.publish(*offers[0]):
                    offers.pop(0)
                sink.flush(_WAIT)
                for heard in sink.receipts(_WAIT):
                    moved = monotonic()
                    ended |= isinstance(heard, Refusal) and heard.ends
                    self._settle(heard, owed, outcomes)
                if monotonic() - moved > self._patience:
                    why = sink.trouble() or "it does not say why"
                    raise Fatal(
                        f"the broker has given no receipt for {self._patience:g} s: {why}",
                        hint="What has no receipt stays a dead letter. Replay again when the broker answers.",
                    )
        return {id_: waiting[id_] for id_ in owed}

    def _settle(self, heard: Receipt | Refusal, owed: dict[int, int], outcomes: dict[int, ReplayOutcome]) -> None:
        id_ = heard.ticket
        if isinstance(heard, Refusal):
            owed.pop(id_, None)
            self._table.refused(id_, heard.error, heard.reason)
            outcomes[id_] = ReplayOutcome(id_, "refused", heard.reason)
        elif id_ in owed:
            owed[id_] -= heard.messages
            if owed[id_] == 0:
                del owed[id_]
                outcomes[id_] = ReplayOutcome(id_, "replayed")

    def _messages(self, stored: StoredDeadLetter) -> Sequence[Message]:
        """By today's rules. Unroutable where they give no message, Undecodable where there is no record."""
        _, _, error, reason, _, _, record, message, *_ = stored.letter
        if error == UNDECODABLE:
            raise Undecodable(reason)
        if record is not None:
            routed = self._route(record)
            messages = routed if message is None else self._of_its_sink(stored, routed)
        else:
            messages = [] if message is None else [message]
        if not messages:
            raise Unroutable("there is nothing to publish: today's rules give no message for it")
        return [each._replace(headers=[*each.headers, REPLAYED]) for each in messages]

    def _of_its_sink(self, stored: StoredDeadLetter, routed: Sequence[Message]) -> Sequence[Message]:
        """The message of that number; the only one for the sink that refused it, if the rules have another order now.
        The other sinks have theirs.
        """
        number = stored.letter.origin.number
        same = routed[number : number + 1]
        if stored.sink not in self._sinks:
            return same
        its = [each for each in routed if sink_and_topic(each.topic)[0] == stored.sink]
        return same if same and same[0] in its else its if len(its) == 1 else ()


def dead_letter_replay(wiring: Wiring, table: DeadLetterTable, by: str) -> DeadLetterReplay:
    """By the rules of the relay, to its sinks."""
    return DeadLetterReplay(table, wiring.router(table.catalog).route, wiring.sink.open, by, sinks=wiring.sink.names)


def _wave(left: Sequence[DeadLetterKey]) -> tuple[list[DeadLetterKey], list[DeadLetterKey]]:
    """The first dead letter of each key, and what is left for later waves; both in order."""
    wave: list[DeadLetterKey] = []
    later: list[DeadLetterKey] = []
    taken = set()
    for each in left:
        fits = len(wave) < _WAVE and (each.key is None or each.order_key not in taken)
        (wave if fits else later).append(each)
        taken.add(each.order_key)
    return wave, later
