"""When messages are sent in batches, and when each is sent alone.

A broker refuses a whole batch because of one message in it, or because together they are too large. Only a message that
was sent alone can be named. So batches are given up after one was refused, and tried again after a while.
"""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError

from walrelay.errors import Fatal, Retryable, StartAnew, WalrelayError
from walrelay.sinks.kafka.client_statistics import ClientStatistics
from walrelay.sinks.kafka.errors import Outage

UNBATCHED = {"batch.num.messages": 1}
_FIRST_STREAK = 1_000
_MOST = 100  # messages that go one by one: a large transaction must not take long
_PATIENCE = 5.0  # seconds; a refusal comes sooner, unless it is for a topic that does not exist
_ASK_AGAIN = 1.0  # seconds between two questions whether the topic exists


class BatchingHistory:
    """What this process learned about batches; each of its runs begins with it."""

    def __init__(self) -> None:
        self.outage = Outage()
        self.statistics: ClientStatistics | None = None  # where somebody wants to know
        self.batch_refused = False
        self._accepted = False  # whether the client took the settings once
        self._streak = 0  # messages in a row that were sent alone and became durable
        self._needed = _FIRST_STREAK  # for batches to be tried again; doubled each time

    def client_made(self) -> None:
        """The client took the settings."""
        self._accepted = True

    def no_client(self, why: Fatal) -> WalrelayError:
        """What ends the run that has no client. Settings that were taken once are right: a certificate is being
        renewed.
        """
        return Retryable(str(why)) if self._accepted else why

    def counted(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a new client, whose statistics are heard where somebody wants them."""
        return {**options, **(self.statistics.options(options) if self.statistics is not None else {})}

    @property
    def may_batch_again(self) -> bool:
        return self.batch_refused and self._streak >= self._needed

    def unbatched_messages_passed(self, count: int) -> None:
        """`count` messages, each sent alone, became durable."""
        self._streak += count

    def unbatched_message_failed(self) -> None:
        self._streak = 0

    def without_batches(self, topic: str, error: KafkaError) -> StartAnew:
        """What ends the run after a refused batch."""
        self.batch_refused = True
        return StartAnew(
            f"Kafka refused a batch of messages for topic {topic!r}: {error.str()}; from now on each message is sent"
            " alone, to find the refused record, or because the topic takes no large batches"
        )

    def with_batches_again(self) -> StartAnew:
        """What ends the run after enough messages became durable one by one."""
        passed, self._streak, self.batch_refused = self._streak, 0, False
        self._needed *= 2
        return StartAnew(f"{passed} messages went through one by one; batches are tried again")


class Trial:
    """A run's first transaction goes message by message, so that a refused message is refused alone.

    A relay that starts again after a refused record begins with that record's transaction. In a batch the record would
    take others with it, and what follows it would be published to other partitions: again with each start of a
    supervisor. `unknown` says whether the topic of the message in flight does not exist.
    """

    def __init__(self, unknown: Callable[[], bool]) -> None:
        self._unknown = unknown
        self._ticket: int | None = None
        self._count = 0
        self._asks_at: float | None = None  # by then the message in flight should be settled
        self.over = False

    @property
    def waits(self) -> bool:
        """Whether a message is in flight."""
        return self._asks_at is not None and not self.over

    def takes(self, ticket: int) -> bool:
        """Whether a message of that transaction may be sent now; also true when the trial is over."""
        if self._asks_at is None:
            self.over = self._count >= _MOST or self._ticket not in (None, ticket)
            return True
        if monotonic() < self._asks_at:
            return False
        self._asks_at = monotonic() + _ASK_AGAIN
        self.over = not self._unknown()
        return self.over

    def took(self, ticket: int) -> None:
        """A message is in flight."""
        self._ticket, self._asks_at = ticket, monotonic() + _PATIENCE
        self._count += 1

    def settled(self) -> None:
        """The message has its receipt."""
        self._asks_at = None
