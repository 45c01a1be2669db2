"""What of each side waits for its counterpart, and the lanes that it may come in. Pure.

A lane is what corresponds: an old topic and its new one, and whatever else corresponds to one of the two. An event that
rules publish to several topics has a message in each of their lanes.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from walrelay.publish import TopicMessage

_MOST_BYTES = 2**28  # of messages that wait on one side

_Where = tuple[str, int]
_Content = tuple[int | None, bytes, bool]  # the lane, the content, and whether there is an id


def lanes(topics: Sequence[tuple[str, str]]) -> tuple[dict[str, int], dict[str, int]]:
    """The lane of each old and of each new topic."""
    lane = dict[tuple[Literal["old", "new"], str], int]()
    for number, (old, new) in enumerate(topics):
        joined = {lane.get(("old", old)), lane.get(("new", new))}
        lane |= {each: number for each, known in lane.items() if known in joined}
        lane["old", old] = lane["new", new] = number
    sides: tuple[dict[str, int], dict[str, int]] = {}, {}
    for (side, topic), number in lane.items():
        sides[side == "new"][topic] = number
    return sides


class WaitingMessage(NamedTuple):
    """`lane`: of its topic; None: the topic has none. `read_at`: as given to `Pairing.add`."""

    message: TopicMessage
    lane: int | None
    id: str | None
    content: bytes
    read_at: float


class WaitingSide:
    """The messages of one side that wait, the oldest first, and the ids that were paired lately."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._waiting = OrderedDict[int, WaitingMessage]()
        self._by_id = dict[tuple[int | None, str], int]()
        self._alike = dict[_Content, dict[int, None]]()
        self._paired = OrderedDict[tuple[int | None, str], None]()
        self._next = self.size = 0
        self.first_pair = dict[_Where, int]()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) > self._window or (self.size > _MOST_BYTES and len(self._waiting) > 1)

    def repeats(self, waiting: WaitingMessage) -> bool:
        """Whether one of its lane and id came before."""
        if waiting.id is None:
            return False
        named = waiting.lane, waiting.id
        return named in self._by_id or named in self._paired

    def wait(self, waiting: WaitingMessage) -> None:
        number = self._next = self._next + 1
        self._waiting[number] = waiting
        self._alike.setdefault((waiting.lane, waiting.content, waiting.id is not None), {})[number] = None
        if waiting.id is not None:
            self._by_id[waiting.lane, waiting.id] = number
        self.size += _size(waiting.message)

    def counterpart(self, of: WaitingMessage, lanes: Sequence[int | None]) -> WaitingMessage | None:
        """Of a message of the other side, in the first of these lanes that has one; it waits no more."""
        number: int | None = None
        if of.id is not None:
            number = next((self._by_id[lane, of.id] for lane in lanes if (lane, of.id) in self._by_id), None)
        if number is None:
            having = (False,) if of.id is not None else (False, True)
            alike = (self._alike.get((lane, of.content, has_id), ()) for lane in lanes for has_id in having)
            number = next((each for some in alike for each in some), None)
        return None if number is None else self._remove(number)

    def oldest(self) -> WaitingMessage | None:
        return next(iter(self._waiting.values()), None)

    def give_up(self) -> WaitingMessage:
        """The oldest."""
        return self._remove(next(iter(self._waiting)))

    def paired(self, waiting: WaitingMessage) -> None:
        self.first_pair.setdefault((waiting.message.topic, waiting.message.partition), waiting.message.offset)
        if waiting.id is not None:
            self._paired[waiting.lane, waiting.id] = None
            if len(self._paired) > self._window:
                self._paired.popitem(last=False)

    def all(self) -> Iterator[WaitingMessage]:
        return iter(self._waiting.values())

    def _remove(self, number: int) -> WaitingMessage:
        waiting = self._waiting.pop(number)
        content = waiting.lane, waiting.content, waiting.id is not None
        del self._alike[content][number]
        if not self._alike[content]:
            del self._alike[content]
        if waiting.id is not None:
            del self._by_id[waiting.lane, waiting.id]
        self.size -= _size(waiting.message)
        return waiting


class KeyOrder:
    """The latest pair of each key, of the last so many keys."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._last = OrderedDict[Any, tuple[int, int, str]]()

    def behind(self, old: TopicMessage, new: TopicMessage, name: str) -> str | None:
        """The name of a pair that is later on one side and earlier on the other; None if there is none, or no key."""
        if old.key is None or new.key is None:
            return None
        key = old.topic, old.partition, new.topic, new.partition, old.key
        last_old, last_new, last_name = self._last.pop(key, (-1, -1, ""))
        self._last[key] = max(last_old, old.offset), max(last_new, new.offset), name
        if len(self._last) > self._window:
            self._last.popitem(last=False)
        return last_name if old.offset < last_old or new.offset < last_new else None


def content_of(message: TopicMessage) -> bytes:
    hashed = blake2b(b"-" if message.key is None else b"%d:%s" % (len(message.key), message.key), digest_size=16)
    hashed.update(b"-" if message.value is None else b":" + message.value)
    return hashed.digest()


def _size(message: TopicMessage) -> int:
    return len(message.value or b"") + len(message.key or b"")
