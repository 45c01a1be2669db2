"""Messages that are too old for their topic: it deletes a message by the message's own time, as soon as it has it.

A record's message has the time of its commit. A broker that deletes by that time acknowledges such a message and
throws it away; nobody can read it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import time
from typing import NamedTuple

from walrelay.errors import Retryable, SinkError
from walrelay.publish import AnySinkHandle

ANYWAY = "--even-expired"


class Expired(NamedTuple):
    """A topic that deletes messages `seconds` after their own time, and the time of the oldest for it in microseconds
    since 1970.
    """

    topic: str
    seconds: float
    oldest: int
    fix: str

    def __str__(self) -> str:
        at = f"{datetime.fromtimestamp(self.oldest / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.topic} deletes messages {duration(self.seconds)} after their own time, and the oldest is of {at}"


def expired(sink: AnySinkHandle, oldest: Mapping[str, int]) -> list[Expired]:
    """The topics that would delete their oldest message at once. `oldest`: its time by topic, in microseconds since
    1970. Retryable while the broker cannot be asked.
    """
    now = time()
    return [
        Expired(topic, each.seconds, oldest[topic], each.fix)
        for topic, each in sink.expiry(sorted(oldest)).items()
        if topic in oldest and oldest[topic] / 1e6 + each.seconds < now
    ]


def expired_if_known(sink: AnySinkHandle, oldest: Mapping[str, int]) -> list[Expired]:
    """Nothing while the broker cannot be asked: for a plan, before what acts asks again."""
    try:
        return expired(sink, oldest)
    except Retryable:
        return []


def refuse_expired(found: Sequence[Expired]) -> None:
    """Fatal for the first of them."""
    if found:
        first, *others = found
        more = f" ({len(others)} more topics do so)" if others else ""
        raise SinkError(
            f"{first}{more}: the broker would delete it at once, and no consumer would see it",
            hint=f"Let the broker's clock decide: `{first.fix}`; or raise the topic's retention.ms until consumers have"
            f" read it. `{ANYWAY}` publishes all the same.",
            page="sink",
        )


def duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
