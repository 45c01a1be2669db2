"""Which messages get a span, and what it says."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from walrelay.dead_letter import DeadLetter, Origin
from walrelay.errors import Fatal
from walrelay.lsn import LSN, ZERO
from walrelay.model import Message
from walrelay.observe import (
    Confirmed,
    DeadLettered,
    EndedFatally,
    Happening,
    Relayed,
    Retrying,
    Settled,
    Stopped,
    Streaming,
)
from walrelay.telemetry.otlp.outlet import Outlet
from walrelay.telemetry.otlp.spans import SpanMaker
from walrelay.telemetry.otlp.traces import TracedOutcome, TracedRelay, TraceObserver

TRACE, WRITER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = (f"00-{TRACE}-{WRITER}-{flags}".encode() for flags in ("01", "00"))
COMMITTED, READ = 1_700_000_000.0, 1_700_000_000.25


class Traced:
    """An observer, and what leaves it."""

    def __init__(self, share: float = 0.0, room: int = 10_000, kinds: dict[str, str] | None = None) -> None:
        self.outcomes, self.lost = list[TracedOutcome](), Counter[str]()
        self._outlet = Outlet[TracedOutcome]("traces", self._send, lambda _: None, room=room)
        self._observer = TraceObserver(TracedRelay("r", "s", kinds or {"": "kafka"}), self._outlet, self.lost, share)

    def _send(self, outcomes: Sequence[TracedOutcome]) -> str:
        self.outcomes += outcomes
        return ""

    def saw(self, *happenings: Happening) -> None:
        for each in happenings:
            self._observer.saw(each)

    def end(self) -> list[TracedOutcome]:
        self._outlet.end()
        self._outlet.join(60)
        return self.outcomes

    def spans(self) -> list[ReadableSpan]:
        return SpanMaker(Resource({})).make(self.end())


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    yield made
    made.end()


def message(parent: bytes | None = SAMPLED, id_: str = "1", topic: str = "orders") -> Message:
    own: list[tuple[str, bytes | None]] = [] if parent is None else [("traceparent", parent)]
    return Message(topic, None, b"12345", [*own, ("id", id_.encode()), ("position", b"0/9:0")], int(COMMITTED * 1e3))


def turn(*taken: Message, last: int = 9) -> Relayed:
    return Relayed(len(taken), len(taken), taken, [len(taken)], len(taken), LSN(last), READ)


def settled(commit_lsn: int = 9) -> Settled:
    return Settled(0.1, 0.1, LSN(commit_lsn))


def errors(outcomes: Sequence[TracedOutcome]) -> list[str]:
    return [outcome.error for outcome in outcomes]


def test_a_span_is_the_writers_child_and_linked_to_it_from_the_commit_to_the_receipt(traced: Traced) -> None:
    traced.saw(turn(message()), settled())
    (span,) = traced.spans()
    assert (span.name, span.kind) == ("publish orders", SpanKind.PRODUCER)
    assert span.context is not None
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, WRITER)
    assert [f"{link.context.span_id:016x}" for link in span.links] == [WRITER]
    assert [event.name for event in span.events] == ["commit", "decode", "publish", "receipt"]
    assert span.start_time == span.events[0].timestamp == int(COMMITTED * 1e9)
    assert span.events[1].timestamp == int(READ * 1e9)
    assert span.end_time == span.events[3].timestamp
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": "1",
        "messaging.message.body.size": 5,
        "relay": "r",
        "slot": "s",
        "position": "0/9:0",
    }


def test_the_writers_flag_decides_and_a_share_of_those_without_a_parent() -> None:
    none, all_ = Traced(share=0.0), Traced(share=1.0)
    nonsense = b"00-nonsense"
    for each in (none, all_):
        each.saw(turn(*(message(parent) for parent in (SAMPLED, NOT_SAMPLED, None, nonsense, b""))), settled())
    assert [outcome.message.parent for outcome in none.end()] == [SAMPLED]
    assert [outcome.message.parent for outcome in all_.end()] == [SAMPLED, None, None, None]
    assert [span.parent for span in all_.spans()][1:] == [None] * 3


def test_a_parent_that_is_none_makes_a_root(traced: Traced) -> None:
    traced.saw(turn(message(b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")), settled())
    (span,) = traced.spans()
    assert (span.parent, len(span.links)) == (None, 0)


def test_a_message_waits_for_its_own_transaction(traced: Traced) -> None:
    traced.saw(turn(message(id_="1"), last=5), turn(message(id_="2"), last=9), settled(5))
    traced.saw(Stopped(ZERO, 1))
    assert errors(traced.end()) == ["", "the run ended before its receipt: it is published again"]


def test_all_are_durable_once_nothing_is_unsettled(traced: Traced) -> None:
    traced.saw(turn(message()), Confirmed(LSN(1), 1), Confirmed(LSN(9), 0))
    assert errors(traced.end()) == [""]


def test_what_goes_on_over_another_connection_gets_its_receipt_and_what_comes_again_does_not(traced: Traced) -> None:
    lost = Retrying("", 1, 0.1, False, "Disconnected")
    traced.saw(turn(message(), last=5), turn(message(), last=9), lost, Streaming("s", LSN(7), "pgoutput"), settled(5))
    assert errors(traced.end()) == ["the run ended before its receipt: it is published again", ""]


@pytest.mark.parametrize(
    "end", [Retrying("", 1, 0.1, False, "BrokerAway"), EndedFatally(Fatal("it")), Stopped(ZERO, 1)]
)
def test_a_run_that_ends_ends_its_spans(traced: Traced, end: Happening) -> None:
    traced.saw(turn(message()), end)
    (span,) = traced.spans()
    assert not span.status.is_ok
    assert [event.name for event in span.events] == ["commit", "decode", "publish"]


def test_a_dead_letter_is_an_error(traced: Traced) -> None:
    letter = DeadLetter(Origin(LSN(9), 0, 0, "1"), "waiting", "too_large", "it is too large")
    traced.saw(turn(message()), DeadLettered(letter), settled())
    (span,) = traced.spans()
    assert span.status.description == "too_large: a dead letter"


def test_one_of_several_sinks_is_named() -> None:
    traced = Traced(kinds={"left": "kafka", "right": "sqs"})
    traced.saw(turn(message(topic="right:orders")), settled())
    (span,) = traced.spans()
    said = span.attributes or {}
    assert (span.name, said["messaging.system"], said["sink"]) == ("publish orders", "aws_sqs", "right")


def test_messages_without_room_get_no_span_and_are_counted() -> None:
    traced = Traced(room=2)
    traced.saw(turn(*[message()] * 5), settled())
    assert len(traced.end()) == 2
    assert traced.lost == {"traces": 3}


def test_a_server_whose_clock_is_ahead_makes_no_span_that_ends_before_it_begins(traced: Traced) -> None:
    ahead = message()._replace(timestamp_ms=int(READ * 1e3) + 60_000)
    traced.saw(turn(ahead), settled())
    (span,) = traced.spans()
    times = [event.timestamp for event in span.events]
    assert times == sorted(times)
