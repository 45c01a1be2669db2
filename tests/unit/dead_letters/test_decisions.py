"""Setting aside, decision by decision; tests/simulation has what follows when anything breaks."""

from collections.abc import Iterable

import pytest

from tests.seen import Seen
from walrelay.dead_letter import DeadLetter, Origin
from walrelay.dead_letters.decisions import DeadLetterDecisions, PlaceOf, topic_of
from walrelay.dead_letters.identity import of_records
from walrelay.dead_letters.refusal_history import RefusalHistory
from walrelay.dead_letters.wrapping import DeadLetteringRouter, DeadLetteringSink
from walrelay.errors import StartAnew, Undecodable, Unroutable
from walrelay.lsn import LSN, ZERO
from walrelay.model import AnyRecord, Message, OutboxRecord, Receipt, Refusal, Undecoded
from walrelay.observe import DeadLettered
from walrelay.route.rules import Rules
from walrelay.wiring import Policy

KEEPS = Policy("dead_letter")


def record(number: int, topic: str | None = "t", commit_lsn: int = 100) -> OutboxRecord:
    empty = OutboxRecord(LSN(commit_lsn), number, 0, f"e{number}", "thing", "k", None, b"{}", None, topic, None, None)
    return empty._replace(payload=b"%d" % number)


def route(record: AnyRecord) -> tuple[Message, ...]:
    if isinstance(record, Undecoded):
        raise Undecodable(record.reason, hint=record.hint)
    if record.topic is None:
        raise Unroutable("no topic")
    return (Message(record.topic, b"k", record.payload, [("id", record.id.encode())], 0),)


class Store:
    """Letters in a list; `open_keys` decides what `write_blocked` finds."""

    def __init__(self) -> None:
        self.writer: list[DeadLetter] = []
        self.open_keys = True

    def write(self, letter: DeadLetter) -> None:
        self.writer.append(letter)

    def write_blocked(self, letter: DeadLetter, behind: tuple[str, bytes] | None = None) -> bool:
        if self.open_keys:
            self.writer.append(letter)
        return self.open_keys

    def await_standbys(self) -> None:
        pass

    def first_open(self, topic: str, key: bytes) -> Origin | None:
        return None


class Broker:
    """A sink that refuses some values as soon as it is asked for receipts."""

    def __init__(
        self, *refused: bytes, scope: str = "message", ends: bool = False, topics: tuple[str, ...] = ("t",)
    ) -> None:
        self.refused, self.scope, self.ends, self.topics = refused, scope, ends, topics
        self.taken: list[Message] = []
        self.heard: list[Receipt | Refusal] = []
        self.room = 100

    def publish(self, message: Message, ticket: int) -> bool:
        if self.room == 0:
            return False
        self.room -= 1
        if message.value in self.refused and message.topic in self.topics:
            self.heard.append(Refusal(ticket, message, "why", "hint", "poison", self.scope, self.ends))
        else:
            self.taken.append(message)
            self.heard.append(Receipt(ticket, 1))
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        pass

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        heard, self.heard = self.heard, []
        return heard

    def flush(self, timeout: float) -> None:
        pass

    def close(self) -> None:
        pass

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return ""


class Run:
    """Router and sink of one run over a broker, and everything that was told."""

    def __init__(
        self,
        policy: Policy,
        broker: Broker,
        *,
        history: RefusalHistory | None = None,
        settled: dict[Origin, DeadLetter] | None = None,
        place_of: PlaceOf = topic_of,
    ) -> None:
        self.store, self.broker, self.history = Store(), broker, history or RefusalHistory()
        self.seen = Seen()
        known = of_records((settled or {}).values())
        decisions = DeadLetterDecisions(policy, self.store, self.history, known, {}, self.seen, place_of)
        self.router = DeadLetteringRouter(route, decisions, Rules("t").unrouted)
        self.sink = DeadLetteringSink(broker, decisions)

    def publish(self, *records: OutboxRecord) -> list[bool]:
        return [self.sink.publish(message, 7) for each in records for message in self.router.route(each)]

    def receipts(self) -> list[Receipt | Refusal]:
        return list(self.sink.receipts(0))


def test_a_refused_message_is_kept_with_its_record_and_then_counts_as_settled() -> None:
    run = Run(KEEPS, Broker(b"1"))
    assert run.publish(record(1), record(2)) == [True, True]
    assert run.receipts() == [Receipt(7, 1)] * 2
    (letter,) = run.store.writer
    assert run.seen.of(DeadLettered)[0] == DeadLettered(letter)
    assert (letter.status, letter.error, letter.reason, letter.topic, letter.key) == (
        "waiting",
        "poison",
        "why",
        "t",
        b"k",
    )
    assert (letter.record, letter.origin, letter.attempts) == (record(1), Origin(LSN(100), 1, 0, "e1"), 1)


def test_a_sink_that_ends_with_a_refusal_ends_the_run_once_the_receipts_are_heard() -> None:
    run = Run(KEEPS, Broker(b"1", ends=True))
    run.publish(record(0), record(1))
    assert run.receipts() == [Receipt(7, 1)]
    assert run.publish(record(2)) == [False]
    with pytest.raises(StartAnew, match="dead letter") as caught:
        run.receipts()
    assert caught.value.retry_within == 0.001
    assert len(run.store.writer) == 1


def test_a_message_is_offered_as_often_as_the_settings_say_with_the_usual_pauses() -> None:
    history = RefusalHistory()
    for _ in range(2):
        run = Run(KEEPS._replace(attempts=3), Broker(b"1"), history=history)
        run.publish(record(1))
        assert run.receipts() == []
        with pytest.raises(StartAnew, match="tried again") as caught:
            run.receipts()
        assert caught.value.retry_within is None
        assert run.store.writer == []
    last = Run(KEEPS._replace(attempts=3), Broker(b"1"), history=history)
    last.publish(record(1))
    last.receipts()
    assert [letter.attempts for letter in last.store.writer] == [3]


def test_what_is_set_aside_is_not_offered_again_and_the_same_position_with_another_id_is() -> None:
    """Positions repeat in another history of WAL, after a restore for instance."""
    settled = {Origin(LSN(100), 1, 0, "e1"): DeadLetter(Origin(LSN(100), 1, 0, "e1"), "waiting", "poison", "why", "t")}
    run = Run(KEEPS, Broker(), settled=settled)
    run.publish(record(1), record(1)._replace(id="another"), record(2))
    assert [message.value for message in run.broker.taken] == [b"1", b"2"]


def test_a_topic_that_refuses_everything_is_asked_once_in_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("walrelay.dead_letters.refusal_history.monotonic", lambda: now)
    broker = Broker(b"1", b"2", b"3", scope="topic")
    run = Run(KEEPS, broker)
    run.publish(record(1))
    run.receipts()
    run.publish(record(2), record(3))
    assert run.receipts() == [Receipt(7, 1)] * 2
    assert [letter.attempts for letter in run.store.writer] == [1, 0, 0]
    now += 61
    broker.refused = ()
    run.publish(record(4), record(5))
    assert [message.value for message in broker.taken] == [b"4", b"5"]


def test_a_place_that_refuses_everything_closes_no_other_of_its_topic() -> None:
    """Where the settings lead the messages of one topic to several places."""
    places = {b"3": None, b"4": "b"}
    run = Run(KEEPS, Broker(b"1", scope="topic"), place_of=lambda message: places.get(message.value or b"", "a"))
    run.publish(record(1))
    run.receipts()
    run.publish(record(2), record(3), record(4))
    assert run.receipts() == [Receipt(7, 1)] * 3
    assert [letter.attempts for letter in run.store.writer] == [1, 0]
    assert [message.value for message in run.broker.taken] == [b"3", b"4"]


def test_a_refusal_of_a_message_that_goes_nowhere_closes_nothing() -> None:
    run = Run(KEEPS, Broker(b"1", scope="topic"), place_of=lambda message: None)
    run.publish(record(1))
    run.receipts()
    run.publish(record(2))
    assert [message.value for message in run.broker.taken] == [b"2"]


def test_a_closed_place_stops_no_topic_whose_policy_is_to_stop() -> None:
    run = Run(KEEPS._replace(topics=(("u", "stop"),)), Broker(b"1", scope="topic"), place_of=lambda message: "queue")
    run.publish(record(1))
    run.receipts()
    run.publish(record(2, topic="u"))
    assert [message.topic for message in run.broker.taken] == ["u"]


def test_closed_places_are_forgotten_after_their_time_and_beyond_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("walrelay.dead_letters.refusal_history.monotonic", lambda: now)
    closed = RefusalHistory().closed
    for number in range(3_000):
        closed.close(str(number), "unknown_topic", "why")
    assert (len(closed), closed.why("2999"), closed.why("0")) == (1_000, (1060.0, "unknown_topic", "why"), None)
    now += 61
    assert closed.why("2999") is None
    closed.close("another", "unknown_topic", "why")
    assert len(closed) == 1


def test_what_the_whole_sink_refuses_is_never_set_aside() -> None:
    run = Run(KEEPS, Broker(b"1", scope="sink"))
    run.publish(record(1))
    (refusal,) = run.receipts()
    assert isinstance(refusal, Refusal)
    assert run.store.writer == []


def test_an_unroutable_record_is_kept_and_yields_nothing() -> None:
    run = Run(KEEPS, Broker())
    assert run.publish(record(1, topic=None)) == []
    (letter,) = run.store.writer
    assert (letter.error, letter.reason, letter.topic, letter.message) == ("unroutable", "no topic", None, None)
    with pytest.raises(Unroutable):
        Run(Policy("stop", (("a", "skip"),)), Broker()).publish(record(1, topic=None))


def test_a_dead_letter_for_a_topic_takes_the_place_of_the_message_under_its_ticket() -> None:
    run = Run(KEEPS._replace(topic="graveyard"), Broker(b"1"))
    run.publish(record(1))
    assert run.receipts() == []
    assert run.receipts() == [Receipt(7, 1)]
    (dead,) = run.broker.taken
    assert (dead.topic, dead.key, dead.value) == ("graveyard", b"k", b"1")
    assert dict(dead.headers) == {
        "id": b"e1",
        "dead_letter_error": b"poison",
        "dead_letter_reason": b"why",
        "dead_letter_topic": b"t",
    }


def test_a_dead_letter_without_room_goes_before_everything_else() -> None:
    broker = Broker(b"1")
    broker.room = 1
    run = Run(KEEPS._replace(topic="graveyard"), broker)
    run.publish(record(1))
    run.receipts()
    assert run.publish(record(2)) == [False]
    broker.room = 5
    assert run.publish(record(2)) == [True]
    assert [message.topic for message in broker.taken] == ["graveyard", "t"]


def test_the_topic_of_the_dead_letters_gets_a_message_before_the_transaction_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In exactly-once mode the mark says that all of the transaction was taken."""
    monkeypatch.setattr("walrelay.dead_letters.refusal_history.monotonic", lambda: 1000.0)
    broker = Broker(b"1", scope="topic")
    run = Run(KEEPS._replace(topic="graveyard"), broker)
    run.publish(record(1))
    run.receipts()
    run.receipts()
    broker.room = 0
    (message,) = run.router.route(record(2))
    assert not run.sink.publish(message, 7)
    broker.room = 5
    assert run.sink.publish(message, 7)
    assert [message.value for message in broker.taken] == [b"1", b"2"]
    assert len(run.store.writer) == 2


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A topic that refused everything, and a topic for dead letters that has no room now."""
    monkeypatch.setattr("walrelay.dead_letters.refusal_history.monotonic", lambda: 1000.0)
    run = Run(KEEPS._replace(topic="graveyard"), Broker(b"1", scope="topic"))
    run.publish(record(1))
    run.receipts()
    run.receipts()
    run.broker.room = 0
    return run


def test_a_dead_letter_that_finds_no_room_is_there_once_when_its_record_is_read_again(closed: Run) -> None:
    """Over another connection it comes as another object, under the same ticket."""
    assert closed.publish(record(2)) == [False]
    closed.broker.room = 5
    assert closed.publish(record(2)) == [True]
    assert closed.receipts() == [Receipt(7, 1)]
    assert [message.value for message in closed.broker.taken] == [b"1", b"2"]
    assert [letter.origin.ordinal for letter in closed.store.writer] == [1, 2]


def test_an_unroutable_record_that_is_read_again_is_told_once(closed: Run) -> None:
    assert closed.publish(record(2, topic=None)) == [False]
    closed.broker.room = 5
    assert closed.publish(record(2, topic=None)) == [True]
    assert [letter.origin.ordinal for letter in closed.store.writer] == [1, 2]
    assert [each.letter.origin.ordinal for each in closed.seen.of(DeadLettered)] == [1, 2]


def test_nothing_has_a_receipt_before_the_relay_knows_that_it_was_taken(closed: Run) -> None:
    assert closed.publish(record(2)) == [False]
    closed.broker.room = 5
    assert closed.receipts() == []
    assert closed.publish(record(2)) == [True]
    assert closed.receipts() == [Receipt(7, 1)]


def test_a_refusal_of_the_topic_for_dead_letters_is_told_to_the_relay() -> None:
    run = Run(KEEPS._replace(topic="graveyard"), Broker(b"1", topics=("t", "graveyard")))
    run.publish(record(1))
    assert run.receipts() == []
    (refusal,) = run.receipts()
    assert isinstance(refusal, Refusal)
    assert refusal.message.topic == "graveyard"


def test_a_key_waits_behind_its_dead_letter_until_that_is_closed() -> None:
    run = Run(KEEPS._replace(block_key=True), Broker(b"1"))
    run.publish(record(1))
    run.receipts()
    run.publish(record(2))
    assert [letter.status for letter in run.store.writer] == ["waiting", "blocked"]
    assert run.broker.taken == []
    run.store.open_keys = False
    run.publish(record(3))
    assert [message.value for message in run.broker.taken] == [b"3"]


def test_a_message_that_comes_before_the_dead_letter_of_its_key_does_not_wait_for_it() -> None:
    """Read again after a crash, in which the slot fell back behind what was published."""
    run = Run(KEEPS._replace(block_key=True), Broker(b"5"))
    run.publish(record(5))
    run.receipts()
    run.publish(record(4))
    assert [message.value for message in run.broker.taken] == [b"4"]
