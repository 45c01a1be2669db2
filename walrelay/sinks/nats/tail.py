"""What a run that was interrupted left in the stream, behind the position that it kept last.

The next run begins at that position and publishes the same messages in the same order. Those that are there already
are not sent again.
"""

from base64 import b64decode
from collections import deque
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from walrelay.sinks.nats.messages import Outgoing, as_bytes

OBEYED = "Nats-"  # how the headers begin that are not the message's own


class Stored(NamedTuple):
    """A message in the stream."""

    sequence: int
    subject: str
    headers: Mapping[str, str]
    payload: bytes

    @staticmethod
    def of_answer(message: Mapping[str, Any]) -> "Stored":
        """Of `STREAM.MSG.GET`."""
        lines = b64decode(message.get("hdrs") or "").decode().split("\r\n")[1:]
        headers = dict(line.split(":", 1) for line in lines if ":" in line)
        payload = b64decode(message.get("data") or "")
        return Stored(message["seq"], message["subject"], {n: v.strip() for n, v in headers.items()}, payload)


class StreamTail:
    """`stored`: in the order of the stream, and of the relay's own messages alone. `acknowledged`: of those that this
    process stored, by number, what `content_of` says; a stream that is consumed may have them no longer.
    """

    def __init__(self, stored: Iterable[Stored] = (), acknowledged: Mapping[int, bytes] | None = None) -> None:
        found = {**(acknowledged or {}), **{each.sequence: _of_stored(each) for each in stored}}
        self._left = deque(sorted(found.items()))

    def has(self, outgoing: Outgoing) -> int:
        """The number of the next message that is there, if it is this one; otherwise 0, and then the settings make
        other messages of the records than they did: from here on nothing is assumed to be there.
        """
        if not self._left:
            return 0
        sequence, found = self._left.popleft()
        if found == content_of(outgoing):
            return sequence
        self._left.clear()
        return 0


def content_of(outgoing: Outgoing) -> bytes:
    """A hash of all that a consumer sees."""
    return _hashed(as_bytes(*outgoing[:3]))


def _of_stored(message: Stored) -> bytes:
    own = {name: value for name, value in message.headers.items() if not name.startswith(OBEYED)}
    return _hashed(as_bytes(message.subject, own, message.payload))


def _hashed(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
