"""Which messages a dead letter becomes when it is replayed: today's messages of its record, as it is or was edited, for
the destination that it is about, and for no other.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from walrelay.dead_letter import UNDECODABLE, Origin
from walrelay.dead_letters.filtering import OPEN, DeadLetterFilter
from walrelay.dead_letters.handling import DeadLetterTable, OrderKey, SiblingLetter, StoredDeadLetter
from walrelay.dead_letters.identity import letters_of_messages, stored_text
from walrelay.errors import Undecodable, Unroutable, WalrelayError
from walrelay.model import REPLAYED, Message, OutboxRecord

Route = Callable[[OutboxRecord], Sequence[Message]]


class NoSuchDestination(Unroutable):
    """Today's rules have no message of the record for the destination of its dead letter."""


class Republishing:
    """By the rules of `route`. `instead`: the topic that takes the place of one that the rules no longer have."""

    def __init__(self, route: Route, instead: str | None = None) -> None:
        self._route, self._instead = route, instead

    def messages(self, stored: StoredDeadLetter) -> Sequence[Message]:
        """Unroutable where today's rules give no message, Undecodable where there is no record."""
        letter = stored.letter
        if letter.error == UNDECODABLE:
            raise Undecodable(letter.reason)
        if stored.record is None:
            found = [] if letter.message is None else [letter.message]
        else:
            routed = self._route(stored.record)
            if letter.record is not None and stored.edit is not None:
                found = self._as_edited(stored, letter.record, routed)
            else:
                found = self._own(stored, routed)
        if not found:
            raise Unroutable("there is nothing to publish: today's rules give no message for it")
        return [each._replace(headers=[*each.headers, REPLAYED]) for each in found]

    def keys_today(self, stored: StoredDeadLetter) -> frozenset[OrderKey]:
        """What it would be published under; where its destination is gone, what each under which may take its place,
        at the same sink. Empty where the rules cannot say it.
        """
        if stored.record is None:
            return frozenset()
        try:
            routed = self._route(stored.record)
        except WalrelayError:
            return frozenset()
        pairs = [*zip(routed, letters_of_messages(stored.siblings, routed), strict=True)]
        sink = f"{stored.sink}:"
        of_sink = sink if (stored.letter.topic or "").startswith(sink) else ""
        free = [message for message, letter in pairs if letter is None and message.topic.startswith(of_sink)]
        return order_keys([message for message, letter in pairs if _is(letter, stored)] or free)

    def _own(self, stored: StoredDeadLetter, routed: Sequence[Message]) -> list[Message]:
        """Those whose dead letter it is; of a record that could not be routed all that have none of their own."""
        letters = letters_of_messages(stored.siblings, routed)
        found = [message for message, letter in zip(routed, letters, strict=True) if _is(letter, stored)]
        if found or not routed or stored.letter.topic is None:
            return found
        free = [message for message, letter in zip(routed, letters, strict=True) if letter is None]
        return self._instead_of(stored, free)

    def _as_edited(self, stored: StoredDeadLetter, original: OutboxRecord, routed: Sequence[Message]) -> list[Message]:
        """An edit may lead elsewhere: to the one destination that the original does not go to."""
        letters = letters_of_messages(stored.siblings, routed)
        found = [message for message, letter in zip(routed, letters, strict=True) if _is(letter, stored)]
        if found or not routed or stored.letter.topic is None:
            return found
        try:
            before = {message.topic for message in self._route(original)} - {stored.letter.topic}
        except Unroutable:
            before = set()
        free = [
            message
            for message, letter in zip(routed, letters, strict=True)
            if letter is None and message.topic not in before
        ]
        return free if len(free) == 1 else self._instead_of(stored, free)

    def _instead_of(self, stored: StoredDeadLetter, free: Sequence[Message]) -> list[Message]:
        """Only an operator can say whether another destination takes the place of one that is gone: others may have
        their message.
        """
        chosen = [message for message in free if message.topic == self._instead]
        if len(chosen) == 1:
            return chosen
        topics = (
            ", ".join(dict.fromkeys(message.topic for message in free)) or "none that has no dead letter of its own"
        )
        raise NoSuchDestination(
            f"today's rules give no message for topic {stored.letter.topic} of this record; they give: {topics}",
            hint="If another topic takes its place, name it: `walrelay dlq replay --id"
            f" {stored.id} --instead TOPIC`. Otherwise discard it.",
        )


def order_keys(messages: Sequence[Message]) -> frozenset[OrderKey]:
    """What these messages have an order with, as the table has it."""
    return frozenset((stored_text(each.topic), each.key) for each in messages if each.key is not None)


def _is(letter: SiblingLetter | None, stored: StoredDeadLetter) -> bool:
    return letter is not None and letter.id == stored.id


class OpenLetter(NamedTuple):
    """`then`: what was refused; `now`: what a replay would publish by today's rules, but for `then`. A later message of
    either does not overtake it, where keys are blocked.
    """

    id: int
    origin: Origin
    status: str
    then: OrderKey
    now: frozenset[OrderKey]


def open_letters(table: DeadLetterTable, republishing: Republishing) -> Iterator[OpenLetter]:
    """Those that have a topic and a key, in their order. Reads the records page by page."""
    for stored in table.letters(table.find(DeadLetterFilter(statuses=OPEN))):
        letter = stored.letter
        if letter.topic is not None and letter.key is not None:
            then = (letter.topic, letter.key)
            yield OpenLetter(stored.id, letter.origin, letter.status, then, republishing.keys_today(stored) - {then})
