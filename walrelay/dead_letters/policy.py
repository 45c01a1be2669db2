"""What becomes of a message that the broker refuses, and of a record that no rule routes: the policy as a value."""

from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

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
