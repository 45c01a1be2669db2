"""Several sinks as one: addresses, windows, refusals, and the end of one of them."""

from collections.abc import Iterable
from typing import Any, cast

import pytest

from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN, ZERO
from walrelay.model import Finding, Message, Offered, OutboxRecord, Receipt, Refusal
from walrelay.publish import Found, SeveralSinks, SinkHandle, SinkHandles, Span
from walrelay.sinks import memory


class Broker:
    """A sink whose receipts come when the test says so; notes how it is called."""

    def __init__(self, room: int = 10) -> None:
        self.room = room
        self.taken: list[Message] = []
        self.heard: list[Receipt | Refusal] = []
        self.error: Exception | None = None
        self.waited: list[float] = []
        self.flushed: list[float] = []
        self.marks: list[LSN] = []
        self.closed = 0
        self.complaint = ""

    def publish(self, message: Message, ticket: int) -> bool:
        if len(self.taken) >= self.room:
            return False
        self.taken.append(message)
        return True

    def mark(self, end_lsn: LSN, commit_lsn: LSN = ZERO, ordinal: int = 0, *, over: bool = False) -> None:
        self.marks.append(end_lsn)

    def receipts(self, timeout: float) -> Iterable[Receipt | Refusal]:
        if self.error:
            raise self.error
        if timeout:
            self.waited.append(timeout)
        heard, self.heard = self.heard, []
        return heard

    def flush(self, timeout: float) -> None:
        self.flushed.append(timeout)

    def close(self) -> None:
        self.closed += 1

    def descriptor(self) -> int | None:
        return None

    def trouble(self) -> str:
        return self.complaint


def message(topic: str) -> Message:
    return Message(topic, b"k", b"v", [], 0)


@pytest.fixture
def eu() -> Broker:
    return Broker()


@pytest.fixture
def us() -> Broker:
    return Broker(room=1)


@pytest.fixture
def both(eu: Broker, us: Broker) -> SeveralSinks:
    return SeveralSinks({"eu": eu, "us": us})


def test_a_message_goes_to_the_sink_of_its_address_without_the_sinks_name(
    both: SeveralSinks, eu: Broker, us: Broker
) -> None:
    assert both.publish(message("eu:a:b"), 0)
    assert [each.topic for each in eu.taken] == ["a:b"]
    assert us.taken == []
    with pytest.raises(Fatal, match="'a' names no sink of this relay; its sinks are eu, us"):
        both.publish(message("a"), 0)


def test_a_sink_without_room_is_waited_for_and_the_others_still_take_what_comes_before(
    both: SeveralSinks, eu: Broker, us: Broker
) -> None:
    assert both.publish(message("us:x"), 0)
    assert not both.publish(message("us:x"), 0)
    assert both.receipts(0.05) == []
    assert (len(us.waited), len(eu.waited)) == (1, 0)
    assert both.publish(message("eu:x"), 0)
    both.receipts(0.05)
    assert (len(us.waited), len(eu.waited)) == (2, 1)
    assert us.waited[1] + eu.waited[0] <= 0.05, "those that owe receipts share the time"


def test_only_sinks_that_owe_receipts_are_flushed(both: SeveralSinks, eu: Broker, us: Broker) -> None:
    both.flush(1)
    both.publish(message("us:x"), 0)
    both.flush(1)
    assert (eu.flushed, us.flushed) == ([], [1])


def test_the_trouble_of_each_sink_has_its_name(
    both: SeveralSinks, eu: Broker, us: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("walrelay.publish.several.monotonic", lambda: now)
    eu.complaint = "away"
    assert both.trouble() == "eu: away", "with nothing in flight, too"
    both.publish(message("us:x"), 0)
    assert both.trouble() == "eu: away"
    now += 6
    assert both.trouble() == "eu: away; us: nothing was acknowledged"
    eu.complaint, us.heard = "", [Receipt(0, 1)]
    assert both.receipts(0) == [Receipt(0, 1)]
    assert both.trouble() == ""


def test_a_refusal_has_the_address_and_the_record_of_what_was_offered(both: SeveralSinks, us: Broker) -> None:
    offered = tuple.__new__(Offered, message("us:x"))
    offered.record, offered.number = cast(OutboxRecord, "the record"), 3
    both.publish(offered, 7)
    us.heard = [Refusal(7, us.taken[0], "no", "Create it: walrelay init --topics x --exact", ends=False)]
    (refusal,) = both.receipts(0)
    assert isinstance(refusal, Refusal)
    assert refusal.message == offered
    assert isinstance(refusal.message, Offered)
    assert (refusal.message.record, refusal.message.number) == (offered.record, 3)
    assert refusal.hint == "Create it: walrelay init --topics us:x --exact"
    assert both.publish(message("eu:x"), 8), "it goes on"


@pytest.mark.parametrize("error", [None, Retryable("the client is broken")])
def test_when_a_sink_ends_nothing_more_is_taken_and_the_others_settle_first(
    both: SeveralSinks, eu: Broker, us: Broker, error: Retryable | None
) -> None:
    both.publish(message("eu:x"), 0)
    both.publish(message("us:x"), 0)
    us.error, us.heard = error, [Refusal(0, us.taken[0], "no", "Do.")]
    assert both.receipts(0) == []
    assert not both.publish(message("eu:x"), 1)
    us.error = AssertionError("it is not asked any more")
    eu.heard = [Receipt(0, 1)]
    assert both.receipts(0) == [Receipt(0, 1)], "what is durable is told, whatever else happens"
    if error is None:
        (refusal,) = both.receipts(0)
        assert isinstance(refusal, Refusal)
        assert refusal.message.topic == "us:x"
    else:
        with pytest.raises(Retryable, match="the client is broken"):
            both.receipts(0)


def test_the_end_of_a_sink_is_told_although_others_do_not_settle(
    both: SeveralSinks, us: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("walrelay.publish.several.monotonic", lambda: now[0])
    both.publish(message("eu:x"), 0)
    us.error = Retryable("the client is broken")
    assert both.receipts(0) == []
    now[0] = 1.1
    with pytest.raises(Retryable):
        both.receipts(0)


def test_marks_and_the_end_are_for_all(both: SeveralSinks, eu: Broker, us: Broker) -> None:
    both.mark(LSN(7))
    both.close()
    both.close()
    assert eu.marks == us.marks == [LSN(7)]
    assert eu.closed == us.closed == 2


def handle(**functions: Any) -> SinkHandle:
    settings = memory.MemorySettings(keep=1)
    return SinkHandle("memory", settings, memory.plugin._replace(**functions))


def test_if_a_sink_cannot_be_opened_the_others_are_closed() -> None:
    opened = Broker()

    def fails(settings: Any, memory: Any) -> Any:
        raise Fatal("no")

    with pytest.raises(Fatal, match="no"):
        SinkHandles({"eu": handle(open=lambda *_: opened), "us": handle(open=fails)}).open()
    assert opened.closed == 1


def test_each_sink_is_examined_with_its_own_topics_and_findings_have_its_name() -> None:
    def examine(settings: Any, topics: Any) -> list[Finding]:
        return [Finding("topics", "problem", ",".join(topics), "walrelay init --topics x")]

    handles = SinkHandles({"eu": handle(examine=examine), "us": handle(examine=examine)})
    assert list(handles.examine(["eu:a", "us:b", "eu:c.*"])) == [
        Finding("eu: topics", "problem", "a,c.*", "walrelay init --topics eu:x"),
        Finding("us: topics", "problem", "b", "walrelay init --topics us:x"),
    ]


def test_topics_are_read_back_and_made_by_their_addresses() -> None:
    def read_back(settings: Any, topics: Any, since_ms: int) -> list[Found | Span]:
        return [Span(topic, 0, 0, 0, 0, 0, None) for topic in topics]

    def make(settings: Any, topics: Any, *_: Any) -> list[tuple[str, bool]]:
        return [(topic, True) for topic in topics]

    each: dict[str, Any] = {"read_back": read_back, "make_topics": make}
    handles = SinkHandles({"eu": handle(**each), "us": handle(**each)})
    assert [span.topic for span in handles.reader("It")(["us:b", "eu:a"], 0)] == ["us:b", "eu:a"]
    assert list(handles.make_topics(["us:b", "eu:a"], 1, None)) == [("us:b", True), ("eu:a", True)]
    with pytest.raises(Fatal, match="'a' names no sink"):
        handles.make_topics(["a"], 1, None)


def test_what_a_sink_cannot_do_is_said_with_its_name() -> None:
    handles = SinkHandles({"eu": handle(read_back=lambda *_: iter(())), "us": handle()})
    with pytest.raises(Fatal, match="`walrelay audit`, for sink 'us', reads the topics, and a sink of kind 'memory'"):
        handles.reader("`walrelay audit`")
    with pytest.raises(Fatal, match="'us', reads"):
        handles.topic_streams("It")(["us:b"], 0)
    with pytest.raises(Fatal, match="reads the topics of one sink as one stream, and eu:a, us:b are of several"):
        handles.topic_streams("It")(["eu:a", "us:b"], 0)
    assert (handles.finds_newest, handles.newest(["eu:a"], 1)) == (False, ([], None))
    assert (handles.sink_of("eu:a"), handles.sink_of(None)) == ("eu", "several")
