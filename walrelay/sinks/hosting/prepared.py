"""What was made of messages when they were looked at, until they are sent: by the connection that looked, or a later
one.
"""

from collections import deque
from typing import Generic, TypeVar

from walrelay.model import Message
from walrelay.sinks.hosting.contract import Sending

Made = TypeVar("Made")


class PreparedMessages(Generic[Made]):
    """By the identity of the message; one object may come twice."""

    def __init__(self) -> None:
        self._made: dict[int, deque[Made]] = {}

    def __contains__(self, message: Message) -> bool:
        return id(message) in self._made

    def keep(self, message: Message, made: Made) -> None:
        self._made.setdefault(id(message), deque()).append(made)

    def take(self, message: Message) -> Made:
        """What was kept first of it, which is then forgotten."""
        kept = self._made[id(message)]
        made = kept.popleft()
        if not kept:
            del self._made[id(message)]
        return made

    def look(self, message: Message) -> Made:
        """What `take` would give."""
        return self._made[id(message)][0]

    def of(self, sending: Sending) -> list[Made]:
        """What was made of its messages, for the first connection that sends it and for each later one."""
        if sending.prepared is None:
            sending.prepared = [self.take(message) for message, _ in sending.taken]
        made: list[Made] = sending.prepared
        return made
