"""Whether a broker answers, also while there is nothing to publish."""

from time import monotonic
from typing import Any

from walrelay.sinks.pulsar.client import OK, VERDICTS, said
from walrelay.sinks.pulsar.mailbox import Mailbox

NOWHERE = "persistent://walrelay-doctor/asks/whether-anybody-answers"
"""Of a topic without a namespace nothing is ever made, and a broker that says so has let us in."""

_EVERY = 5.0  # seconds
_AGAIN = 1.0  # seconds, after one that was not answered


class Reach:
    """Asks again when nothing was heard for a while."""

    def __init__(self, client: Any, mailbox: Mailbox, url: str) -> None:
        self._client, self._mailbox, self._url = client, mailbox, url
        self._why = f"not connected to Pulsar at {url} yet"
        self.heard_at = 0.0
        """When a broker last answered."""
        self._asked = 0.0  # when, while there is no answer
        self._next = 0.0

    def ask(self) -> None:
        """If it is time to."""
        now = monotonic()
        if not self._asked and now >= self._next:
            self._asked = now
            self._client.get_topic_partitions_async(NOWHERE, self._mailbox.callback(self))

    def answered(self, result: Any) -> bool:
        """To the question. Whether a broker is there that was away."""
        was_away, self._asked = self._why != "", 0.0
        if is_answer(result):
            self.heard()
            return was_away
        self._why = f"Pulsar cannot be reached at {self._url}: {said(result)}"
        self._next = monotonic() + _AGAIN
        return False

    def heard(self) -> None:
        """A broker has said something."""
        self.heard_at = monotonic()
        self._why, self._next = "", self.heard_at + _EVERY

    def trouble(self) -> str:
        """Why none does."""
        if not self._why and self._asked and monotonic() - self._asked > _EVERY:
            return f"Pulsar at {self._url} has not answered for more than {_EVERY:g} s"
        return self._why


def is_answer(result: Any) -> bool:
    """Whether that is an answer of a broker that has let us in."""
    return result == OK or result in VERDICTS
