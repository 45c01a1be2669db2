"""How many messages each topic was sent, and how many bytes."""

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from walrelay.model import Message, sink_and_topic

OTHER_TOPICS = "(other)"

_FEW = 32  # messages: a turn that has no more is always counted
_MOMENT = 0.05  # seconds between two larger ones that are
_TOPIC, _VALUE = itemgetter(0), itemgetter(2)  # of a message; by name it takes a fifth longer


class Sent:
    """What a topic was sent."""

    __slots__ = ("messages", "size")

    def __init__(self) -> None:
        self.messages = self.size = 0


class _Share(NamedTuple):
    """What a topic was sent in one turn."""

    sent: Sent
    messages: int
    size: int


class SentByTopic:
    """Written by the relay's thread and read by others at any time; `by_topic` is replaced whole."""

    def __init__(self, several_sinks: bool, topics: int, *, exact: bool) -> None:
        """`topics`: how many have numbers of their own. Not `exact`: while large turns follow each other closely, the
        topics and sizes of one stand for those after it.
        """
        self.by_topic: dict[tuple[str, str], Sent] = {}  # by sink and topic
        self._several_sinks, self._most, self._exact = several_sinks, topics, exact
        self._by_address: dict[str, Sent] = {}
        self._last: list[_Share] = []  # of the turn that was counted last
        self._counted, self._counted_at = 1, 0.0  # its messages
        self._uncounted = 0  # messages of turns since

    def count(self, taken: Sequence[Message], now: float) -> None:
        """A turn's messages, of which there are some. `now` by `monotonic`."""
        if not self._exact and len(taken) > _FEW and now - self._counted_at < _MOMENT:
            self._uncounted += len(taken)
            return
        self.settle()
        self._last, self._counted, self._counted_at = self._shares(taken), len(taken), now
        for sent, messages, size in self._last:
            sent.messages += messages
            sent.size += size

    def settle(self) -> None:
        """What was not counted is estimated; also wherever a turn finds nothing."""
        if self._uncounted:
            times, self._uncounted = self._uncounted / self._counted, 0
            for sent, messages, size in self._last:
                sent.messages += round(messages * times)
                sent.size += round(size * times)

    def _shares(self, taken: Sequence[Message]) -> list[_Share]:
        """Most turns have one topic, for which no line of Python runs for each message."""
        if len(taken) == 1:
            (message,) = taken
            return [_Share(self._sent_to(message.topic), 1, len(message.value or b""))]
        topics = [*map(_TOPIC, taken)]
        if topics.count(topics[0]) == len(topics):  # a hash table would take three times as long
            size = sum(map(len, filter(None, map(_VALUE, taken))))
            return [_Share(self._sent_to(topics[0]), len(topics), size)]
        sizes = Counter[str]()
        for message in taken:
            sizes[message.topic] += len(message.value or b"")
        return [_Share(self._sent_to(topic), messages, sizes[topic]) for topic, messages in Counter(topics).items()]

    def _sent_to(self, address: str) -> Sent:
        return self._by_address.get(address) or self._first_of(address)

    def _first_of(self, address: str) -> Sent:
        sink, topic = sink_and_topic(address) if self._several_sinks else ("", address)
        key = (sink, topic) if len(self.by_topic) < self._most else (sink, OTHER_TOPICS)
        found = self.by_topic.get(key) or Sent()
        if len(self._by_address) < 10 * self._most:
            self._by_address[address] = found
        self.by_topic = self.by_topic | {key: found}
        return found
