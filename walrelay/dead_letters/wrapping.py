"""Wraps router and sink of a run: refused messages become dead letters, and count as settled. What became one in an
earlier run is settled whatever the policy is now.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from walrelay.dead_letter import Origin
from walrelay.dead_letters.decisions import DeadLetterDecisions, Key, PlaceOf, topic_of
from walrelay.dead_letters.refusal_history import RefusalHistory
from walrelay.dead_letters.republishing import OpenLetter
from walrelay.dead_letters.store import DeadLetterTableWriter
from walrelay.errors import StartAnew, Undecodable, Unroutable
from walrelay.lsn import LSN, ZERO
from walrelay.model import AnyRecord, Message, Receipt, Refusal, Undecoded
from walrelay.observe import Observer
from walrelay.postgres.catalog import Catalog
from walrelay.publish.contract import Sink
from walrelay.route import Routing
from walrelay.wiring import Policy

Route = Callable[[AnyRecord], Iterable[Message]]
OpenLetters = Callable[[Catalog], Iterable[OpenLetter]]
Unrouted = Callable[[AnyRecord], bytes | None]
"""What may be published of a record that no rule made a message of: the rules may redact its payload."""


class DeadLetteringRouter:
    """Routes as `route` does; dead letters take the place of messages that became one."""

    def __init__(self, route: Route, decisions: DeadLetterDecisions, unrouted: Unrouted) -> None:
        self._route, self._decisions, self._unrouted = route, decisions, unrouted

    def route(self, record: AnyRecord) -> Sequence[Message]:
        try:
            messages = tuple(self._route(record))
        except (Unroutable, Undecodable) as why:
            return self._decisions.unpublishable(record, why, self._unrouted(record))
        return messages if isinstance(record, Undecoded) else self._decisions.offered(record, messages)


class DeadLetteringSink:
    """Implements `walrelay.publish.Sink` over another sink, whose refusals become dead letters.

    Under the ticket of a refused message comes a receipt as soon as the dead letter is in the table, or, where dead
    letters go to a topic, that message's receipt. If the sink is useless after a refusal, or is to be offered the
    message again, the run ends after the relay got all receipts.
    """

    def __init__(self, sink: Sink, decisions: DeadLetterDecisions) -> None:
        self._sink, self._decisions = sink, decisions
        self._settled: list[Receipt] = []  # of messages that became dead letters
        self._owed: deque[tuple[Message, int]] = deque()  # dead letters, still to be offered, and their tickets
        self._may_replace = decisions.may_replace
        self._ends_with: StartAnew | None = None

    def publish(self, message: Message, ticket: int) -> bool:
        if self._ends_with or (self._owed and not self._offers_owed()):
            return False
        if self._may_replace() and (replacement := self._decisions.replacement(message)) is not None:
            if not replacement:
                self._settled.append(Receipt(ticket, 1))
                return True
            (message,) = replacement  # not owed: no receipt may come before the relay counts the message as taken
        return self._sink.publish(message, ticket)

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self._ends_with:
            raise self._ends_with
        self._offers_owed()
        heard: list[Receipt | Refusal] = []
        for each in self._sink.receipts(0.0 if self._settled else timeout):
            if isinstance(each, Receipt) or not self._handled(each):
                heard.append(each)
        heard += self._settled
        self._settled = []
        return heard

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        self._sink.mark(end_lsn, commit_lsn, ordinal, over=over)

    def flush(self, timeout: float) -> None:
        self._sink.flush(timeout)

    def close(self) -> None:
        self._sink.close()

    def descriptor(self) -> int | None:
        return self._sink.descriptor()

    def trouble(self) -> str:
        return self._sink.trouble()

    def _handled(self, refusal: Refusal) -> bool:
        """False: the relay has to stop because of it."""
        again = self._decisions.is_retried(refusal)
        if again is None:
            return False
        topic, reason = refusal.message.topic, refusal.reason
        if again:
            self._ends_with = StartAnew(
                f"a message was refused for topic {topic!r}, to be tried again: {reason}", retry_within=None
            )
            return True
        replacement = self._decisions.dead_letter_instead(refusal)
        if not refusal.ends:
            self._replace(replacement, refusal.ticket)
        elif self._ends_with is None:
            self._ends_with = StartAnew(f"a message was refused for topic {topic!r} and is a dead letter now: {reason}")
        return True

    def _offers_owed(self) -> bool:
        """Offers the dead letters that still have to be published; returns whether the sink has taken all of them."""
        while self._owed and self._sink.publish(*self._owed[0]):
            self._owed.popleft()
        return not self._owed

    def _replace(self, replacement: Sequence[Message], ticket: int) -> None:
        if replacement:
            self._owed.extend((message, ticket) for message in replacement)
        else:
            self._settled.append(Receipt(ticket, 1))


class DeadLettering:
    """The policy of one process, through all of its runs. `writer` gives access to the table over a connection; None
    where there is no table and the policy needs none.
    """

    def __init__(
        self,
        policy: Policy,
        writer: Callable[[Catalog], DeadLetterTableWriter | None],
        observer: Observer,
        unrouted: Unrouted,
        place_of: PlaceOf = topic_of,
        open_letters: OpenLetters = lambda catalog: (),
    ) -> None:
        """`open_letters`: with their keys by today's rules; asked for at the start of a run that blocks keys."""
        self._policy, self._open, self._observer = policy, writer, observer
        self._unrouted, self._place_of, self._open_letters = unrouted, place_of, open_letters
        self._history = RefusalHistory()
        self._writer: DeadLetterTableWriter | None = None

    def wrap(self, catalog: Catalog, start: LSN, routing: Routing, sink: Sink) -> tuple[Routing, Sink]:
        """Routing and sink of a run from `start` on; unchanged where the policy is only to stop, and no earlier run
        left anything to go by.
        """
        self._history.forget_before(start)
        writer = self._writer = self._open(catalog)
        if writer is None:
            return routing, sink
        settled, blocked = writer.settled(start), writer.blocked_keys(begun=not self._policy.block_key)
        if self._policy.only_stops and not settled and not blocked:
            return routing, sink
        decisions = DeadLetterDecisions(
            self._policy,
            writer,
            self._history,
            settled,
            blocked,
            self._observer,
            self._place_of,
            self._under_others(catalog) if self._policy.block_key and blocked else (),
        )
        return DeadLetteringRouter(routing.route, decisions, self._unrouted), DeadLetteringSink(sink, decisions)

    def _under_others(self, catalog: Catalog) -> Iterator[tuple[Key, Origin, Key]]:
        for letter in self._open_letters(catalog):
            yield from ((now, letter.origin, letter.then) for now in letter.now)

    def reconnect(self, catalog: Catalog) -> None:
        if self._writer is not None:
            self._writer.reconnect(catalog)
