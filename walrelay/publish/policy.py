"""What becomes of a message that the broker refuses, and of a record that no rule routes: the policy as a value."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from walrelay.errors import Refused
from walrelay.lsn import LSN
from walrelay.model import Refusal, position_of

_UNKNOWN = LSN(2**64 - 1), 0  # behind every place

Choice = Literal["stop", "dead_letter", "skip"]


class Policy(NamedTuple):
    """The settings' section `refusals`. `table` and `topic` say where dead letters go; `topic` None: not to one."""

    default: Choice = "stop"
    topics: tuple[tuple[str, Choice], ...] = ()
    attempts: int = 1
    block_key: bool = False
    table: bool = True
    topic: str | None = None

    def of(self, topic: str) -> Choice:
        """What is done about a refusal for `topic`; the first pattern that matches counts.

        What even the topic of the dead letters refuses has no other place to go.
        """
        if topic == self.topic:
            return "stop"
        return next((choice for pattern, choice in self.topics if fnmatchcase(topic, pattern)), self.default)

    @property
    def only_stops(self) -> bool:
        """Whether there is nothing else it may do."""
        return {self.default, *(choice for _, choice in self.topics)} == {"stop"}


def refused(refusals: Iterable[Refusal]) -> Refused:
    """The error that stops the relay for the first of them: which record, where, why, and what to do."""
    first = min(refusals, key=lambda refusal: _place(refusal) or _UNKNOWN)
    headers = _headers(first)
    return Refused(
        f"record {headers.get('id', '?')} at {headers.get('position', '?')} was refused for topic"
        f" {first.message.topic!r}: {first.reason}",
        hint=first.hint,
        place=_place(first),
    )


def _place(refusal: Refusal) -> tuple[LSN, int] | None:
    try:
        lsn, ordinal = position_of(_headers(refusal)["position"])
    except (ValueError, KeyError):
        return None
    return None if ordinal is None else (lsn, ordinal)


def _headers(refusal: Refusal) -> dict[str, str]:
    return {name: (value or b"").decode(errors="replace") for name, value in refusal.message.headers}
