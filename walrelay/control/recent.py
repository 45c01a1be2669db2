"""The last events of a relay, kept in its process for whoever asks.

The relay's thread notes one thing for each turn, whatever the number of its messages: the messages themselves. While it
is busy, later turns push them out untouched. What each event shows is taken from its message when somebody asks, when
nothing else is to be done, or when the values become too much to hold.

Where large turns would push out all that is kept within a second, it stays for so long, and of the turns that come
meanwhile only the end of the latest is there. Nobody could look at the others, and messages that are held make the
relay slower: it takes new memory, which is in no cache.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any, NamedTuple

from walrelay.lsn import LSN
from walrelay.model import EVENT_ID, Message, sink_and_topic
from walrelay.observe import Relayed
from walrelay.route.rules.payloads import redacted
from walrelay.wiring import EventOptions

REDACTED = "***"

_SPAN = 1.0  # seconds
_LARGE, _END = 32, 8  # messages of a turn
_RAW = 4 * 2**20  # bytes of values that are held for a moment
_AT_ONCE = 100  # messages: a moment of the relay's thread
_LONGEST = 200  # characters of an id, a type, a key
_LARGEST = 16_384  # bytes of a payload that is kept
_VALUE = attrgetter("value")


class _Noted(NamedTuple):
    """What an event shows of its message, which is not held any more. `committed_at` in milliseconds."""

    id: str | None
    type: str | None
    position: str | None
    topic: str
    key: str | None
    committed_at: int
    size: int
    payload: bytes | None
    is_letter: bool


class _Turn:
    """The messages of a turn of the loop: as they were taken, or noted. Times are Unix's; `first`: the number of the
    first one.
    """

    __slots__ = ("acknowledged_at", "confirmed_at", "count", "first", "last", "noted", "read_at", "sent_at", "taken")

    def __init__(self, taken: Sequence[Message], first: int, last: LSN, read_at: float, sent_at: float) -> None:
        self.taken: Sequence[Message] | None = taken
        self.noted: Sequence[_Noted] = ()
        self.count, self.first, self.last = len(taken), first, last
        self.read_at, self.sent_at = read_at, sent_at
        self.acknowledged_at: float | None = None
        self.confirmed_at: float | None = None


class EventRing:
    """Written by the relay's thread; `after` is for any other."""

    def __init__(self, options: EventOptions, *, several_sinks: bool, clock: Callable[[], float]) -> None:
        self._options, self._several_sinks, self._clock = options, several_sinks, clock
        self._turns = deque[_Turn]()
        self._unacknowledged, self._unconfirmed = deque[_Turn](), deque[_Turn]()
        self._raw = deque[tuple[_Turn, int]]()  # those with messages, and the bytes of their values
        self._raw_bytes = self._count = 0
        self._latest: _Turn | None = None  # if the next turn may take its place
        self.last = 0  # the number of the latest event

    def add(self, turn: Relayed) -> None:
        keep, taken = self._options.keep, turn.taken
        if not taken:
            return
        now = self._clock()
        hurries = len(taken) > _LARGE and self._count >= keep and now - self._turns[0].sent_at < _SPAN
        most = _END if hurries else keep
        if len(taken) > most:
            taken = taken[-most:]
        if self._latest is not None:
            if hurries:
                self._take_back(self._latest)
            else:
                self._hold(self._latest)
            self._latest = None
        self.last += len(turn.taken)
        made = _Turn(taken, self.last - len(taken) + 1, turn.last, turn.read_at, now)
        self._count += made.count
        self._turns.append(made)
        self._unacknowledged.append(made)
        self._unconfirmed.append(made)
        if hurries:
            self._latest = made
            return
        self._hold(made)
        while self._count - self._turns[0].count >= keep:
            self._forget(self._turns.popleft())

    def _hold(self, turn: _Turn) -> None:
        """Its messages, for a while."""
        if turn.taken is not None:
            size = sum(map(len, filter(None, map(_VALUE, turn.taken))))
            self._raw.append((turn, size))
            self._raw_bytes += size
            while self._raw_bytes > _RAW:
                self._note(*self._raw.popleft())

    def _take_back(self, turn: _Turn) -> None:
        self._count -= turn.count
        for turns in (self._turns, self._unacknowledged, self._unconfirmed):
            if turns and turns[-1] is turn:
                turns.pop()

    def _forget(self, turn: _Turn) -> None:
        self._count -= turn.count
        for waiting in (self._unacknowledged, self._unconfirmed):
            if waiting and waiting[0] is turn:
                waiting.popleft()
        if self._raw and self._raw[0][0] is turn:
            self._raw_bytes -= self._raw.popleft()[1]

    def idle(self) -> None:
        """There is time to let go of messages, of some at once."""
        if self._latest is not None:
            self._hold(self._latest)
            self._latest = None
        done = 0
        while self._raw and done < _AT_ONCE:
            turn, size = self._raw.popleft()
            done += turn.count
            self._note(turn, size)

    def _note(self, turn: _Turn, size: int) -> None:
        self._raw_bytes -= size
        if turn.taken is not None:
            turn.noted = self._noted(turn.taken)
            turn.taken = None

    def acknowledged(self, commit_lsn: LSN) -> None:
        """What was read up to this transaction is durable."""
        now, waiting = self._clock(), self._unacknowledged
        while waiting and waiting[0].last <= commit_lsn:
            waiting.popleft().acknowledged_at = now

    def confirmed(self, lsn: LSN) -> None:
        now = self._clock()
        for waiting in (self._unacknowledged, self._unconfirmed):
            while waiting and waiting[0].last < lsn:
                turn = waiting.popleft()
                turn.acknowledged_at = turn.acknowledged_at or now
                if waiting is self._unconfirmed:
                    turn.confirmed_at = now

    def streaming(self, start: LSN) -> None:
        """What was not durable comes again from there, as new events."""
        for waiting in (self._unacknowledged, self._unconfirmed):
            while waiting and waiting[-1].last >= start:
                waiting.pop()

    @property
    def kept(self) -> int:
        return min(self._count, self._options.keep)

    def after(self, number: int) -> Iterator[dict[str, Any]]:
        """The events with later numbers, the newest first."""
        left = self._options.keep
        for turn in reversed(self._turns.copy()):
            taken = turn.taken  # read once: the relay's thread replaces it
            noted = self._noted(taken) if taken is not None else turn.noted
            for place in range(turn.count - 1, -1, -1):
                if turn.first + place <= number or not left:
                    return
                left -= 1
                yield self._shown(turn, turn.first + place, noted[place])

    def _noted(self, taken: Sequence[Message]) -> list[_Noted]:
        return [_noted(message, payloads=self._options.payloads) for message in taken]

    def _shown(self, turn: _Turn, number: int, noted: _Noted) -> dict[str, Any]:
        sink, topic = sink_and_topic(noted.topic) if self._several_sinks else ("", noted.topic)
        commit_lsn = noted.position.partition(":")[0] if noted.position else str(turn.last)
        shown = {
            "number": number,
            "at": turn.sent_at,
            "id": noted.id,
            "type": noted.type,
            "topic": topic,
            "sink": sink,
            "key": noted.key,
            "position": noted.position,
            "commit_lsn": commit_lsn,
            "committed_at": noted.committed_at / 1e3,
            "read_at": turn.read_at,
            "published_at": turn.sent_at,
            "acknowledged_at": turn.acknowledged_at,
            "confirmed_at": turn.confirmed_at,
            "bytes": noted.size,
        }
        if noted.payload is not None:
            shown["payload"] = self._payload(noted.payload, noted.topic, topic, any_topic=noted.is_letter)
        return shown

    def _payload(self, payload: bytes, address: str, topic: str, *, any_topic: bool) -> str:
        """`any_topic`: that of a dead letter, whose payload was meant for another topic."""
        rules = [
            paths
            for pattern, paths in self._options.redact
            if any_topic or fnmatchcase(address, pattern) or fnmatchcase(topic, pattern)
        ]
        if not all(rules):
            return REDACTED
        try:
            text = payload.decode()
            return redacted(text, tuple(path for paths in rules for path in paths)) if rules else text
        except UnicodeDecodeError:
            return REDACTED if rules else f"\\x{payload.hex()}"
        except ValueError:
            return REDACTED  # what cannot be read cannot be redacted


def _noted(message: Message, *, payloads: bool) -> _Noted:
    headers: Mapping[str, bytes | None] = dict(message.headers)  # the last of each name is walrelay's
    value = message.value
    return _Noted(
        _text(headers.get(EVENT_ID) or headers.get("id")),
        _text(headers.get("type")),
        _text(headers.get("position")),
        message.topic,
        _text(message.key),
        message.timestamp_ms,
        len(value or b""),
        value if payloads and value is not None and len(value) <= _LARGEST else None,
        "dead_letter_error" in headers,
    )


def _text(given: bytes | None) -> str | None:
    """Cut, so that a long one is not held."""
    return None if given is None else given[:_LONGEST].decode(errors="replace").replace("\0", "")
