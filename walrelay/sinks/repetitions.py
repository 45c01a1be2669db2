"""Ids by which a broker recognises a repetition.

The id is made of everything that the broker gets. So a record's second message to the same place, or its dead letter,
is no repetition of the first; and a message that is published on purpose once more (`replayed`) never is one.
"""

from hashlib import blake2b
from uuid import uuid4


class RepetitionIds:
    """Of one run, in the order of publishing: a run that begins anew at a record gives its messages the same ids."""

    def __init__(self) -> None:
        self._position = ""
        self._alike: dict[str, int] = {}  # of the record: messages that are the same

    def __call__(self, content: bytes, position: str, *, replayed: bool) -> str:
        """`content`: all that the broker gets. `position`: of its record."""
        if replayed:
            return uuid4().hex
        found = blake2b(content, digest_size=16).hexdigest()
        if position != self._position:
            self._position, self._alike = position, {}
        count = self._alike[found] = self._alike.get(found, 0) + 1
        return found if count == 1 else f"{found}-{count}"
