"""Which messages a dead letter becomes when it is replayed: by today's rules, of the record as it is or was edited."""

from collections.abc import Callable, Collection, Sequence

from walrelay.dead_letter import UNDECODABLE
from walrelay.dead_letters.handling import OrderKey, StoredDeadLetter
from walrelay.dead_letters.store import text
from walrelay.errors import Undecodable, Unroutable
from walrelay.model import REPLAYED, Message, OutboxRecord, sink_and_topic

Route = Callable[[OutboxRecord], Sequence[Message]]


class Republishing:
    """`sinks`: the names of the relay's sinks, if it has several."""

    def __init__(self, route: Route, sinks: Collection[str] = ()) -> None:
        self._route, self._sinks = route, sinks

    def messages(self, stored: StoredDeadLetter) -> Sequence[Message]:
        """Unroutable where today's rules give no message, Undecodable where there is no record."""
        _, _, error, reason, _, _, _, message, *_ = stored.letter
        if error == UNDECODABLE:
            raise Undecodable(reason)
        if stored.record is not None:
            routed = self._route(stored.record)
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


def order_keys(messages: Sequence[Message]) -> frozenset[OrderKey]:
    """What these messages have an order with, as the table has it."""
    return frozenset((text(each.topic), each.key) for each in messages if each.key is not None)
