"""Dead letters that a replay publishes together, message by message: one of a whole record may have several."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from walrelay.model import Message, Receipt, Refusal


class RefusedAgain(NamedTuple):
    """A message without a receipt. `error`: empty where the broker has not answered."""

    message: Message
    error: str
    reason: str


class Published(NamedTuple):
    """What came of the messages of a dead letter: how many the broker has, and the others."""

    acknowledged: int
    others: Sequence[RefusedAgain]


class Wave:
    """Each message has a ticket of its own, so that none is offered again that has its receipt."""

    def __init__(self, messages: Mapping[int, Sequence[Message]]) -> None:
        """By the ids of their dead letters."""
        pairs = [(id_, message) for id_, each in messages.items() for message in each]
        self._owed = dict(enumerate(pairs))
        self._acknowledged = dict.fromkeys(messages, 0)
        self._refused: dict[int, list[RefusedAgain]] = {id_: [] for id_ in messages}

    @property
    def owed(self) -> int:
        """How many messages have no answer."""
        return len(self._owed)

    def offers(self) -> list[tuple[Message, int]]:
        """The messages without an answer, and their tickets."""
        return [(message, ticket) for ticket, (_, message) in self._owed.items()]

    def hear(self, heard: Receipt | Refusal) -> None:
        """Takes an answer of the sink."""
        if (owed := self._owed.pop(heard.ticket, None)) is None:
            return
        id_, message = owed
        if isinstance(heard, Refusal):
            self._refused[id_].append(RefusedAgain(message, heard.error, heard.reason))
        else:
            self._acknowledged[id_] += 1

    def outcomes(self) -> Iterator[tuple[int, Published]]:
        """What came of each dead letter."""
        for id_, acknowledged in self._acknowledged.items():
            unanswered = [RefusedAgain(message, "", "") for of, message in self._owed.values() if of == id_]
            yield id_, Published(acknowledged, [*self._refused[id_], *unanswered])
