"""What a comparison found: a deviation for each message, and the counts. Pure."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from walrelay.publish import TopicMessage

NO_HEADER = "none"
ROW, NO_TOPIC = -1, ""  # the partition of a message that is a row of the table; the topic of one that is refused
_EXCERPT, _BEFORE = 60, 20  # bytes of a value around the first that differs


class Difference(NamedTuple):
    """`what`: topic, key, value, `header NAME` or order; `old` and `new` are excerpts for people."""

    what: str
    old: str
    new: str


class Deviation(NamedTuple):
    """A message that has no counterpart, or one that differs. `id` is empty if it has none."""

    verdict: Literal["differs", "only in OLD", "only in NEW"]
    id: str
    old: TopicMessage | None
    new: TopicMessage | None
    differences: tuple[Difference, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "verdict": self.verdict,
            "id": self.id,
            "old": self.old and _place(self.old),
            "new": self.new and _place(self.new),
            "differences": [each._asdict() for each in self.differences],
        }


class Latency:
    """Milliseconds, counted exactly below a second and to three digits above."""

    def __init__(self) -> None:
        self._counts = Counter[int]()

    def add(self, ms: int) -> None:
        step = 10 ** max(0, len(str(abs(ms))) - 3)
        self._counts[ms // step * step] += 1

    def quantile(self, share: float) -> int | None:
        """None if nothing was measured."""
        values = sorted(self._counts)
        wanted = share * self._counts.total()
        reached = accumulate(self._counts[value] for value in values)
        return next((value for value, count in zip(values, reached, strict=True) if count >= wanted), None)

    def as_json(self) -> dict[str, int | None] | None:
        """In milliseconds; None if nothing was measured."""
        if not self._counts:
            return None
        return {"p50": self.quantile(0.5), "p99": self.quantile(0.99), "max": max(self._counts)}


@dataclass
class CompareReport:
    """The counts; a list has one for OLD and one for NEW."""

    read: list[int] = field(default_factory=lambda: [0, 0])
    pairs: int = 0
    identical: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    """Pairs by what differs; one pair may differ in several ways."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Pairs by what differs and was not to be compared."""
    alone: list[int] = field(default_factory=lambda: [0, 0])
    """Messages without a counterpart."""
    given_up_early: int = 0
    """Of those: because more messages waited than the window takes."""
    beside: list[int] = field(default_factory=lambda: [0, 0])
    """Messages without a counterpart that are outside of what was to be compared."""
    repeated: list[int] = field(default_factory=lambda: [0, 0])
    waiting: list[int] = field(default_factory=lambda: [0, 0])
    """Messages whose counterpart may still come."""
    latency: tuple[Latency, Latency] = field(default_factory=lambda: (Latency(), Latency()))

    @property
    def faults(self) -> list[str]:
        """Why the exit code is 1."""
        if not self.pairs:
            return ["no message of OLD has a counterpart in NEW"]
        differing = self.pairs - self.identical
        counts = ((differing, "differ"), (self.alone[0], "only in OLD"), (self.alone[1], "only in NEW"))
        return [f"{count} {what}" for count, what in counts if count]

    def as_json(self) -> dict[str, Any]:
        """One object; `ok` is whether the exit code is 0."""
        return {
            "ok": not self.faults,
            "faults": self.faults,
            "read": _sides(self.read),
            "pairs": self.pairs,
            "identical": self.identical,
            "differing": dict(self.differing),
            "ignored": dict(self.ignored),
            "alone": _sides(self.alone),
            "given_up_early": self.given_up_early,
            "beside": _sides(self.beside),
            "repeated": _sides(self.repeated),
            "waiting": _sides(self.waiting),
            "latency_ms": _sides([each.as_json() for each in self.latency]),
        }


def differences(old: TopicMessage, new: TopicMessage) -> Iterator[Difference]:
    """In key, value and headers; the values of a header that is there more than once count in their order."""
    if old.key != new.key:
        yield Difference("key", *_excerpts(old.key, new.key))
    if old.value != new.value:
        yield Difference("value", *_excerpts(old.value, new.value))
    if old.headers == new.headers:
        return
    before, after = _by_name(old), _by_name(new)
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield Difference(f"header {name}", _header(before.get(name)), _header(after.get(name)))


def _by_name(message: TopicMessage) -> dict[str, list[bytes | None]]:
    headers: dict[str, list[bytes | None]] = {}
    for name, value in message.headers:
        headers.setdefault(name, []).append(value)
    return headers


def _header(values: list[bytes | None] | None) -> str:
    if values is None:
        return NO_HEADER
    return ", ".join(map(_begun, values))


def _excerpts(old: bytes | None, new: bytes | None) -> tuple[str, str]:
    if old is None or new is None:
        return _begun(old), _begun(new)
    first = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    first = min(len(old), len(new)) if first is None else first
    begin = max(0, first - _BEFORE)
    note = " (the same JSON)" if _same_json(old, new) else ""
    dots = f"from byte {begin}: " if begin else ""
    one, other = (f"{dots}{_shown(each[begin : begin + _EXCERPT])}" for each in (old, new))
    return one, other + note


def _same_json(old: bytes | None, new: bytes | None) -> bool:
    try:
        return bool(json.loads(old or b"") == json.loads(new or b""))
    except (ValueError, RecursionError):
        return False


def _begun(value: bytes | None) -> str:
    return "null" if value is None else _shown(value[:_EXCERPT])


def _shown(value: bytes) -> str:
    return repr(value.decode("utf-8", "backslashreplace"))


def _place(message: TopicMessage) -> dict[str, Any]:
    if message.partition == ROW:
        return {"topic": message.topic or None, "timestamp_ms": message.timestamp_ms}
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
    }


def _sides(values: list[Any]) -> dict[str, Any]:
    return {"old": values[0], "new": values[1]}
