"""The Kafka producer that publishes exactly once: PostgreSQL's transactions in Kafka transactions, with their position.

A group is a Kafka transaction of messages and one position record. Whoever reads read_committed sees both or neither;
so the last position that is there is what the messages that are there end at, whatever died when. In this order:

    init_transactions        no earlier producer of this slot can commit any more: the coordinator raised the epoch
    read the position        now it cannot change under our hands
    START_REPLICATION there  and what is before it is not published again

A group ends at the end of a PostgreSQL transaction, as soon as the stream is momentarily drained or a bound is reached.
A transaction that would keep a group open for too long is cut: the position then says up to which record it got.

Receipts are for groups. Any error but a timeout ends the run: an abort takes back what nobody has seen, and the next
run begins at the position.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as Delivered

from walrelay.errors import Retryable, StartAnew
from walrelay.lsn import LSN, ZERO
from walrelay.model import Counting, Message, Position, Receipt, Refusal, System
from walrelay.sinks.kafka.complaints import Complaints
from walrelay.sinks.kafka.poison_search import Offer, Scout
from walrelay.sinks.kafka.position_topic import PositionTopic
from walrelay.sinks.kafka.refusals import is_refusal, refused
from walrelay.sinks.kafka.settings import KafkaSettings
from walrelay.sinks.kafka.sink import ANY_PARTITION, Experience, error_of, text_of
from walrelay.sinks.kafka.transactional_producer import away, fenced, producer, transactional_id

_SLICE = 0.05  # seconds that a commit is waited for at a time: meanwhile PostgreSQL hears nothing
_QUIET = 0.005  # seconds without another message after which a group is over, even if nobody says so
# The broker says that a commit is done before its markers are written everywhere. Until they are, it sends the next
# transaction's first request away, and librdkafka (2.16) tries that again only after 20 ms.
_REST, _TICK = 0.003, 0.001  # seconds
_ABORT_WAIT = 1.0  # seconds
_BLAME_WAIT = 0.1  # seconds
_LOOK = 1023  # after so many messages of one transaction (and once more) it is asked whether to cut it
_WHOLE: dict[str, Any] = {"commit_lsn": ZERO, "counted": None}  # of a position that is not inside a transaction

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


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
        experience: Experience | None = None,
        counting: Counting | None = None,
    ) -> None:
        self._settings, self._experience = settings, experience or Experience()
        self._alone = self._experience.batch_refused
        self._positions = PositionTopic(settings, system, slot)
        self._mark = self._durable = self._closing = Position(system, slot, ZERO)
        self._counting = counting
        self._state = _State.IDLE
        self._covered = True  # whether the mark is behind every message that was taken
        self._ticket = self._pending = 0  # messages of the ticket since the last mark
        self._receipts: list[Receipt] = []  # of the group, up to the mark
        self._settled: list[Receipt] = []
        self._messages = self._bytes = 0  # of the group
        self._begun = self._marked = self._committed = 0.0
        self._failed: list[tuple[int, KafkaError, Message, bool]] = []  # ticket, why, which, whether that is certain
        self._offers: list[Offer] = []  # of the group, where each message is sent alone
        self._scout: Scout | None = None  # once one of them was refused
        self._broken: KafkaError | None = None
        self._complaints = Complaints(self._experience.outage)
        self._id = transactional_id(system, slot)
        self._producer = producer(settings, self._id, alone=self._alone, complaints=self._complaints)

    def fence(self) -> bool:
        try:
            self._positions.make()
        except KafkaException as cause:
            return away(error_of(cause))
        return fenced(self._producer, self._settings, self._id)

    def last(self) -> Position | None:
        position = self._positions.last()
        if position is not None and position.system == self._mark.system:  # of another timeline it is no floor here
            self._durable = position
        return position

    def publish(self, message: Message, ticket: int) -> bool:
        if self._scout is not None:
            return self._scout.take(ticket, message)
        if self._state is not _State.OPEN and (self._experience.reassured or not self._begin()):
            return False
        if self._pending & _LOOK == _LOOK and self._overdue():
            return False
        try:
            self._produce(message, self._reporter(ticket, message))
        except BufferError:
            return False
        except KafkaException as cause:
            error = error_of(cause)
            if not is_refusal(error):
                self._broken = error
                return False
            self._failed.append((ticket, error, message, True))
        except (ValueError, TypeError) as cause:  # a NUL in the topic, for instance
            self._failed.append((ticket, KafkaError(KafkaError._INVALID_ARG, str(cause)), message, True))
        self._ticket = ticket
        self._pending += 1
        self._covered = False
        self._bytes += len(message.value) if message.value else 0
        if self._alone:
            self._offers.append(Offer(ticket, message))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        inside = {"commit_lsn": commit_lsn, "counted": self._counting} if ordinal else _WHOLE
        self._mark = self._mark._replace(lsn=end_lsn, ordinal=ordinal, **inside)
        if self._pending:
            self._receipts.append(Receipt(self._ticket, self._pending))
            self._messages += self._pending
            self._pending = 0
        self._covered, self._marked = True, monotonic()
        if self._state is _State.OPEN and (over or (self._overdue() if ordinal else self._full())):
            self._end_group()

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self._scout is not None:
            return self._scouted(self._scout)
        if self._broken or self._failed:
            return self._give_up()
        if self._state is _State.IDLE and self._experience.reassured and not self._settled:
            raise self._experience.start_anew()
        if self._whole and monotonic() - self._marked > _QUIET:
            self._end_group()
        if self._state is _State.COMMITTING:
            self._commit(max(timeout, _SLICE))
        elif self._state is _State.IDLE:  # there is nothing else to wait for
            self._poll(min(timeout, _TICK) if self._rest() > 0 else 0)
        else:
            self._poll(0 if self._settled else timeout)
        if self._broken or self._failed:
            return self._give_up()
        settled, self._settled = self._settled, []
        return settled

    def flush(self, timeout: float) -> None:
        """Ends the group, if it can end here."""
        if self._whole:
            self._end_group()
        if self._state is _State.COMMITTING:
            self._commit(max(timeout, _SLICE))

    def keep(self, position: Position) -> LSN:
        self._mark = self._mark._replace(xmin=position.xmin)
        if position.lsn > self._durable.lsn:
            if self._state is _State.IDLE and self._begin():
                self._mark_idle(position.lsn)
                self._end_group()
            if self._state is _State.COMMITTING:
                self._commit(_SLICE)
        return self._durable.lsn

    def _mark_idle(self, lsn: LSN) -> None:
        """A transaction that was cut and is still to come stays cut where it was: else its first part came again."""
        commit_lsn, ordinal = self._mark.commit_lsn, self._mark.ordinal
        self.mark(lsn, *((commit_lsn, ordinal) if commit_lsn >= lsn else (ZERO, 0)))

    def close(self) -> None:
        with suppress(KafkaException, SystemError):
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        if self._state is not _State.IDLE:
            self._abort()
        self._state = _State.IDLE

    def trouble(self) -> str:
        return self._complaints.text

    def _begin(self) -> bool:
        if self._state is _State.COMMITTING or self._broken or self._failed or self._rest() > 0:
            return False
        try:
            self._producer.begin_transaction()
        except KafkaException as cause:
            self._broken = error_of(cause)
            return False
        self._state, self._begun = _State.OPEN, monotonic()
        return True

    @property
    def _whole(self) -> bool:
        """Whether the group that is open holds whole transactions."""
        return self._state is _State.OPEN and self._covered and self._mark.ordinal == 0

    def _overdue(self) -> bool:
        """Whether it has to end even inside a transaction, before the broker takes it back."""
        return monotonic() - self._begun > self._settings.transaction_timeout / 3

    def _rest(self) -> float:
        """Seconds until the next transaction had better begin."""
        return self._committed + _REST - monotonic()

    def _full(self) -> bool:
        settings = self._settings
        return (
            self._messages >= settings.group_messages
            or self._bytes >= settings.group_bytes
            or monotonic() - self._begun >= settings.group_interval
        )

    def _end_group(self) -> None:
        """From here on nothing is taken until the commit is over. The group's position is the mark of now."""
        self._state, self._closing = _State.COMMITTING, self._mark

    def _commit(self, timeout: float) -> None:
        """Goes on with the commit, for `timeout` seconds at most. Not past a message that was refused before it was
        sent: Kafka knows nothing of that.
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
            self._broken = KafkaError(KafkaError._FAIL, text_of(cause.__cause__ or cause))
            return
        self._durable, self._state, self._committed = self._closing, _State.IDLE, monotonic()
        self._settled += self._receipts
        self._experience.quiet += self._messages if self._alone else 0
        self._receipts.clear()
        self._offers.clear()
        self._messages = self._bytes = 0
        self._complaints.answered()

    def _give_up(self) -> list[Refusal]:
        """Takes the group back, and says why: refusals, if messages are to blame. Those are told a little after what
        failed because of them.
        """
        deadline = monotonic() + _BLAME_WAIT
        while not any(is_refusal(error) for _, error, _, _ in self._failed) and monotonic() < deadline:
            self._poll(_BLAME_WAIT / 10)
            if self._broken is not None and self._broken.fatal():
                break
        certain = [each for each in self._failed if is_refusal(each[1]) and each[3]]
        if certain and self._alone:
            return self._scout_begins([(Offer(ticket, message), error) for ticket, error, message, _ in certain])
        if certain:
            self.close()
            return [refused(ticket, message, error, ends=True) for ticket, error, message, _ in certain]
        for _, error, message, _ in self._failed:
            if is_refusal(error):
                self.close()
                self._experience.batch_refused = True
                raise StartAnew(
                    f"Kafka refused a batch of messages for topic {message.topic!r}: {error.str()}; from now on each"
                    " message is sent alone, to find the record or to do without large batches"
                )
        error = self._broken or self._failed[0][1]
        self.close()
        if error.code() in _FENCED:
            raise Retryable(f"another instance publishes for slot {self._mark.slot!r} now: {error.str()}")
        raise Retryable(f"the Kafka transaction was aborted: {error.str()}")

    def _scout_begins(self, found: list[tuple[Offer, KafkaError]]) -> list[Refusal]:
        """Where one message was refused there are others, as a rule."""
        self._experience.quiet = 0
        self.close()
        self._scout = Scout(self._producer, self._produce, self._offers, found)
        return []

    def _scouted(self, scout: Scout) -> list[Refusal]:
        if not scout.step():
            return []
        return [refused(offer.ticket, offer.message, error, ends=True) for offer, error in scout.found]

    def _produce(self, message: Message, report: Callable[..., None]) -> None:
        topic, key, value, headers, timestamp_ms = message
        self._producer.produce(topic, value, key, ANY_PARTITION, report, None, timestamp_ms, headers)  # type: ignore[arg-type]

    def _abort(self) -> None:
        """Best effort: what is not aborted now is when the next producer of this slot fences this one off."""
        with suppress(KafkaException, SystemError):
            self._producer.abort_transaction(_ABORT_WAIT)

    def _reporter(self, ticket: int, message: Message) -> Callable[..., None]:
        """Reports come for failures only. One for all messages, unless each is sent alone to find the one to name."""
        if not self._alone:
            return self._report
        failed = self._failed
        return lambda error, delivered: failed.append((ticket, error, message, True)) if error else None

    def _report(self, error: KafkaError | None, delivered: Delivered) -> None:
        if error is not None:
            message = Message(delivered.topic() or "", delivered.key(), delivered.value(), [], 0)
            self._failed.append((self._ticket, error, message, False))

    def _poll(self, timeout: float) -> None:
        try:
            self._producer.poll(timeout)
        except KafkaException as cause:
            self._broken = error_of(cause)
        except SystemError as cause:
            self._broken = KafkaError(KafkaError._FAIL, text_of(cause.__cause__ or cause))
