"""Router and sink as the relay sees them where refusals do not simply stop it: what is set aside counts as settled."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from walrelay.dead_letters.decisions import Aside
from walrelay.errors import StartAnew, Undecodable, Unroutable
from walrelay.model import AnyRecord, Message, Receipt, Refusal, Undecoded
from walrelay.publish.contract import Sink

Route = Callable[[AnyRecord], Iterable[Message]]


class CarefulRouter:
    """Routes as `route` does, less what is set aside."""

    def __init__(self, route: Route, aside: Aside) -> None:
        self._route, self._aside = route, aside

    def route(self, record: AnyRecord) -> Sequence[Message]:
        try:
            messages = tuple(self._route(record))
        except (Unroutable, Undecodable) as why:
            return self._aside.without_message(record, why)
        return messages if isinstance(record, Undecoded) else self._aside.offered(record, messages)


class CarefulSink:
    """Implements `walrelay.publish.Sink` over another one, whose refusals become dead letters.

    A refused message is replaced under its own ticket: by a receipt when its letter is in the table, by the letter as
    a message where letters go to a topic, and then that one's receipt settles it. If the sink takes nothing more after
    a refusal, or is to be tried again later, the run ends once the relay has heard all there was to hear.
    """

    def __init__(self, sink: Sink, aside: Aside) -> None:
        self._sink, self._aside = sink, aside
        self._settled: list[Receipt] = []  # of what was set aside
        self._owed: deque[tuple[Message, int]] = deque()  # dead letters of what was taken, still to be offered
        self._alert = aside.alert
        self._end: StartAnew | None = None
        self.mark, self.flush, self.close, self.trouble = sink.mark, sink.flush, sink.close, sink.trouble

    def publish(self, message: Message, ticket: int) -> bool:
        if self._end or (self._owed and not self._paid()):
            return False
        if self._alert() and (instead := self._aside.instead(message)) is not None:
            if not instead:
                self._settled.append(Receipt(ticket, 1))
                return True
            (message,) = instead  # not owed: it has a receipt only once the relay was told that it was taken
        return self._sink.publish(message, ticket)

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self._end:
            raise self._end
        self._paid()
        heard: list[Receipt | Refusal] = []
        for each in self._sink.receipts(0.0 if self._settled else timeout):
            if isinstance(each, Receipt) or not self._handled(each):
                heard.append(each)
        heard += self._settled
        self._settled = []
        return heard

    def _handled(self, refusal: Refusal) -> bool:
        """False: the relay has to stop because of it."""
        again = self._aside.tries_again(refusal)
        if again is None:
            return False
        topic, reason = refusal.message.topic, refusal.reason
        if again:
            self._end = StartAnew(
                f"a message was refused for topic {topic!r}, to be tried again: {reason}", retry_within=None
            )
            return True
        instead = self._aside.takes_the_place(refusal)
        if not refusal.ends:
            self._replace(instead, refusal.ticket)
        elif self._end is None:
            self._end = StartAnew(f"a message was refused for topic {topic!r} and is set aside: {reason}")
        return True

    def _paid(self) -> bool:
        """Whether the sink has taken all dead letters that it is owed."""
        while self._owed and self._sink.publish(*self._owed[0]):
            self._owed.popleft()
        return not self._owed

    def _replace(self, instead: Sequence[Message], ticket: int) -> None:
        """Whatever stands for a message has its ticket."""
        if instead:
            self._owed.extend((message, ticket) for message in instead)
        else:
            self._settled.append(Receipt(ticket, 1))
