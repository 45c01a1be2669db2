"""The Kafka producer that publishes exactly once: PostgreSQL's transactions in Kafka transactions, with their position.

A group is a Kafka transaction of messages and one position record. A consumer that reads read_committed sees both or
neither; so the messages that are visible end at the last position that is visible, whatever died when. In this order:

init_transactions        no earlier producer of this slot can commit any more: the coordinators raised the epochs
    read the position        now no other producer can change it
    START_REPLICATION there  and what is before it is not published again

Three producers take turns, a group each: a broker acknowledges a commit before all of its markers are written, and
until then refuses the next transaction of the same producer (decision 23). A group begins only after the one before
it was acknowledged, so groups are committed, and lie in each partition, in their order.

A group ends at the end of a PostgreSQL transaction, when the stream is drained or a limit is reached. A transaction
that keeps a group open for too long is cut: the position then names the last record that was published.

Receipts come for whole groups. Any error but a timeout ends the run: an abort takes back what no consumer has seen, and
the next run begins at the position.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as Delivered

from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.model import Counting, LatestCommit, Message, Receipt, Refusal, RelayPosition, System
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.errors import Complaints, Failure, error_of, is_refusal, reported_message
from walrelay.sinks.kafka.group import Group, culprits, limits_of, why_the_run_ends
from walrelay.sinks.kafka.metadata import may_have_partition
from walrelay.sinks.kafka.poison_search import PoisonSearch
from walrelay.sinks.kafka.position_topic import PositionTopic
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.transactional_producer import TURNS, Turns, away

_SLICE = 0.05  # seconds to wait for a commit at a time: meanwhile PostgreSQL gets no status update
_QUIET = 0.005  # seconds without another message after which a group ends without a flush
_ABORT_WAIT = 1.0  # seconds
_BLAME_WAIT = 0.1  # seconds
_LOOK = 1023  # messages of one transaction between two questions whether to cut it
_WHOLE: dict[str, Any] = {"commit_lsn": ZERO, "counted": None}  # of a position that is not inside a transaction


class _State(Enum):
    IDLE = "no transaction"
    OPEN = "messages are taken"
    COMMITTING = "the position is written, the commit is under way"


class KafkaTransactions:
    """Implements `walrelay.publish.ExactlyOnceSink`. Owned by one run."""

    def __init__(
        self,
        settings: KafkaSettings,
        system: System,
        slot: str,
        history: BatchingHistory | None = None,
        counting: Counting | None = None,
        turns: int = TURNS,
    ) -> None:
        self._history = history or BatchingHistory()
        self._unbatched = self._history.batch_refused
        self._positions = PositionTopic(settings, system, slot)
        self._durable = self._closing = RelayPosition(system, slot, ZERO)
        self._counting = counting
        self._state = _State.IDLE
        self._group = Group(limits_of(settings), self._durable, keeps_offers=self._unbatched)
        self._settled: list[Receipt] = []
        self._failed: list[Failure] = []
        self._broken: KafkaError | None = None
        self._search: PoisonSearch | None = None  # replaces the group after a message that was sent alone was refused
        self._complaints = Complaints(self._history.outage, settings.client_options())
        try:
            self._turns = Turns(
                settings,
                system,
                slot,
                turns,
                unbatched=self._unbatched,
                complaints=self._complaints,
                counted=self._history.counted,
            )
        except Fatal as why:
            raise self._history.no_client(why) from why
        self._history.client_made()
        self._producer = self._turns.producer

    def fence(self) -> bool:
        self._complaints.end_if_certificates_were_renewed()
        try:
            self._positions.make()
            fenced = self._turns.fence()
        except KafkaException as cause:
            self._poll(0)  # what a client says of its connection says more
            if not self._complaints.text:
                self._complaints(error_of(cause))
            return away(error_of(cause))
        if fenced:
            self._complaints.answered()
        return fenced

    def last(self) -> RelayPosition | None:
        return self._positions.last()  # no floor: a server that was set back has its next position before it

    def read_up_to(self, latest: LatestCommit) -> None:
        self._group.mark = self._group.mark._replace(latest=latest)

    def publish(self, message: Message, ticket: int) -> bool:
        if self._search is not None:
            return self._search.take(ticket, message)
        if self._state is not _State.OPEN and (self._history.may_batch_again or not self._begin()):
            return False
        if self._group.pending & _LOOK == _LOOK and self._group.asks_for_its_end(monotonic()):
            return False
        try:
            self._produce(message, self._reporter(ticket, message))
        except BufferError:
            return False
        except (KafkaException, ValueError, TypeError) as cause:
            if not is_refusal(error := error_of(cause), message):
                self._broken = error
                return False
            self._failed.append(Failure(ticket, message, error, True, sent=False, number=self._group.next_number))
        self._group.take(ticket, message)
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        inside = {"commit_lsn": commit_lsn, "counted": self._counting} if ordinal else _WHOLE
        group, now = self._group, monotonic()
        group.set_mark(group.mark._replace(lsn=end_lsn, ordinal=ordinal, **inside), now)
        if self._state is _State.OPEN and (over or (group.is_overdue(now) if ordinal else group.is_full(now))):
            self._end_group()

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self._search is not None:
            return self._searched(self._search)
        if self._broken or self._failed:
            return self._give_up()
        if self._state is _State.IDLE and self._history.may_batch_again and not self._settled:
            raise self._history.with_batches_again()
        if self._may_end and self._group.unmarked_for(monotonic()) > _QUIET:
            self._end_group()
        if self._state is _State.COMMITTING:
            self._commit(max(timeout, _SLICE))
        elif self._state is _State.IDLE:  # there is nothing else to wait for
            self._poll(0)
        else:
            self._poll(0 if self._settled else timeout)
        if self._broken or self._failed:
            return self._give_up()
        settled, self._settled = self._settled, []
        if not settled:
            self._complaints.end_if_certificates_were_renewed()
        return settled

    def flush(self, timeout: float) -> None:
        """Ends the group, if it can end here."""
        if self._may_end:
            self._end_group()
        if self._state is _State.COMMITTING:
            self._commit(max(timeout, _SLICE))

    def keep(self, position: RelayPosition) -> LSN:
        latest = position.latest or self._group.mark.latest
        self._group.mark = self._group.mark._replace(xmin=position.xmin, latest=latest)
        if position.lsn > self._durable.lsn:
            if self._state is _State.IDLE and self._begin():
                self._mark_idle(position.lsn)
                self._end_group()
            if self._state is _State.COMMITTING:
                self._commit(_SLICE)
        return self._durable.lsn

    def _mark_idle(self, lsn: LSN) -> None:
        """A cut transaction that is still to stream stays cut: its first part must not be published again."""
        commit_lsn, ordinal = self._group.mark.commit_lsn, self._group.mark.ordinal
        self.mark(lsn, *((commit_lsn, ordinal) if commit_lsn >= lsn else (ZERO, 0)))

    def close(self) -> None:
        with suppress(KafkaException, SystemError):
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        if self._state is not _State.IDLE:
            self._abort()
        self._state = _State.IDLE

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return self._complaints.text

    def _begin(self) -> bool:
        if self._state is _State.COMMITTING or self._broken or self._failed:
            return False
        try:
            self._producer.begin_transaction()
        except KafkaException as cause:
            self._broken = error_of(cause)
            return False
        self._state = _State.OPEN
        self._group.open(monotonic())
        return True

    @property
    def _may_end(self) -> bool:
        return self._state is _State.OPEN and self._group.is_whole

    def _end_group(self) -> None:
        """The group ends at its mark. The sink takes no message until the commit is done."""
        self._state, self._closing = _State.COMMITTING, self._group.mark

    def _commit(self, timeout: float) -> None:
        """Goes on with the commit, for `timeout` seconds at most. Not after a failure: Kafka would commit a group from
        which the message that the client refused is missing.
        """
        if self._failed:
            return
        try:
            if self._positions.written is not self._closing:
                self._positions.write(self._producer, self._closing)
            self._producer.commit_transaction(timeout)
        except BufferError:
            self._poll(timeout)
            return
        except KafkaException as cause:
            if not error_of(cause).retriable():
                self._broken = error_of(cause)
            return
        except SystemError as cause:
            self._broken = error_of(cause)
            return
        self._durable, self._state = self._closing, _State.IDLE
        self._producer = self._turns.next()
        self._history.unbatched_messages_passed(self._group.messages if self._unbatched else 0)
        self._settled += self._group.committed()
        self._complaints.answered()

    def _give_up(self) -> list[Refusal]:
        """Aborts the group. Returns the refusals that caused it; without one, raises what ends the run."""
        self._wait_for_refusals()
        found = culprits(self._failed)
        if found and self._unbatched:
            return self._begin_search(found)
        ended = None if found else why_the_run_ends(self._failed, self._broken, self._group.mark.slot, self._history)
        self.close()
        if ended is not None:
            raise ended
        return [each.as_refusal(ends=True) for each in found]

    def _wait_for_refusals(self) -> None:
        """The report of a refused message comes a little later than those of what failed because of it."""
        deadline = monotonic() + _BLAME_WAIT
        while not any(each.is_refusal for each in self._failed) and monotonic() < deadline:
            self._poll(_BLAME_WAIT / 10)
            if self._broken is not None and self._broken.fatal():
                break

    def _begin_search(self, found: list[Failure]) -> list[Refusal]:
        """If one message was refused, others probably are."""
        self._history.unbatched_message_failed()
        self.close()
        self._search = PoisonSearch(self._producer, self._produce, self._group.offers, found)
        return []

    def _searched(self, search: PoisonSearch) -> list[Refusal]:
        try:
            return [each.as_refusal(ends=True) for each in search.found] if search.step() else []
        except (KafkaException, SystemError) as cause:
            self._broken = error_of(cause)
        self.close()
        raise why_the_run_ends([], self._broken, self._group.mark.slot, self._history)

    def _produce(self, message: Message, report: Callable[..., None]) -> None:
        """BufferError also where the client just learned of the partition: asked again, it takes the message."""
        topic, key, value, headers, timestamp_ms, partition = message
        try:
            self._producer.produce(topic, value, key, partition, report, None, timestamp_ms, headers)  # type: ignore[arg-type]
        except KafkaException as cause:
            if may_have_partition(self._producer, message, error_of(cause)):
                raise BufferError from cause
            raise

    def _abort(self) -> None:
        """Best effort: a transaction that stays open is aborted when the next producer of this slot fences this one."""
        with suppress(KafkaException, SystemError):
            self._producer.abort_transaction(_ABORT_WAIT)

    def _reporter(self, ticket: int, message: Message) -> Callable[..., None]:
        """The callback for failures (success is not reported): one for all messages, or one for each if they are sent
        alone, so that the failure names its message.
        """
        if not self._unbatched:
            return self._report
        number = self._group.next_number

        def report(error: KafkaError | None, delivered: Delivered) -> None:
            if error is not None:
                self._failed.append(Failure(ticket, message, error, certain=True, number=number))

        return report

    def _report(self, error: KafkaError | None, delivered: Delivered) -> None:
        if error is not None:
            self._failed.append(Failure(self._group.ticket, reported_message(delivered), error, certain=False))

    def _poll(self, timeout: float) -> None:
        try:
            self._turns.poll(timeout)
        except (KafkaException, SystemError) as cause:
            self._broken = error_of(cause)
