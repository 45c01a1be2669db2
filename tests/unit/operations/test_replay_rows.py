"""What a replay adds to a message, and its pace."""

from collections.abc import Iterable, Iterator

from walrelay.lsn import ZERO
from walrelay.model import Finding, OutboxRecord
from walrelay.operations.replay.run import Again, Pace
from walrelay.route import Router
from walrelay.route.rules import Rule, RuleRouter, Rules
from walrelay.route.rules.schemas import PayloadSchema, SchemaRequest

RECORD = OutboxRecord(ZERO, 7, 0, "e1", None, "o", "Placed", b"{}", b'{"a": "b"}', None, None, None)


def test_a_message_is_routed_as_ever_and_says_that_it_is_replayed() -> None:
    (message,) = Again(Router("events")).route(RECORD)
    assert message.topic == "events"
    assert message.headers == [
        ("a", b"b"),
        ("id", b"e1"),
        ("type", b"Placed"),
        ("position", b"0/0:7"),
        ("replayed", b"true"),
    ]


def test_another_topic_takes_the_place_of_rules_that_cannot_route_the_row_any_more() -> None:
    (message,) = Again(Router("{tenant_id}"), "elsewhere").route(RECORD)
    assert message.topic == "elsewhere"


def test_another_topic_takes_the_place_of_those_that_rules_name_and_gets_what_they_make_alike_once() -> None:
    routes = (
        Rule("copy", topic="copies", goes_on=True),
        Rule("keyed", key="{type}", topic="keyed", goes_on=True),
        Rule("all"),
    )
    messages = Again(Rules("{tenant_id}", routes=routes).router(), "elsewhere").route(RECORD)
    assert [(message.topic, message.key) for message in messages] == [("elsewhere", b"o"), ("elsewhere", b"Placed")]


class Encoder:
    """Puts the subject before the payload."""

    def encoded(self, wanted: SchemaRequest, payload: bytes) -> bytes:
        return wanted.subject.encode() + payload

    def examine(self, schemas: Iterable[tuple[PayloadSchema, str]]) -> Iterator[Finding]:
        yield from ()


def test_the_sink_of_another_topic_is_no_part_of_the_subject_of_its_schema() -> None:
    rule = Rule("all", sinks=("us",), schema=PayloadSchema("avro"))
    router = RuleRouter([rule], "{tenant_id}", encoder=Encoder())
    (message,) = Again(router, "us:elsewhere", addressed=True).route(RECORD)
    assert (message.topic, message.value) == ("us:elsewhere", b"elsewhere-value{}")


class Clock:
    """Time that passes only by waiting."""

    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += seconds


def times(pace: Pace, clock: Clock, events: int) -> list[float]:
    """When each event had its turn."""
    found = []
    for _ in range(events):
        assert pace.turn()
        found.append(round(clock.now, 3))
    return found


def test_events_are_evenly_spaced_from_the_first_on() -> None:
    clock = Clock()
    assert times(Pace(4, lambda: False, clock.wait, lambda: clock.now), clock, 5) == [0, 0.25, 0.5, 0.75, 1]


def test_a_pause_of_the_broker_is_not_made_up_for_by_a_burst() -> None:
    clock = Clock()
    pace = Pace(100, lambda: False, clock.wait, lambda: clock.now)
    times(pace, clock, 3)
    clock.now += 10
    after = times(pace, clock, 20)
    assert sum(time == after[0] for time in after) <= 7, "0.05 s of events at once, no more"


def test_without_a_rate_nothing_waits() -> None:
    clock = Clock()
    assert times(Pace(None, lambda: False, clock.wait, lambda: clock.now), clock, 3) == [0, 0, 0]


def test_a_stop_ends_the_wait_for_a_turn() -> None:
    clock = Clock()
    pace = Pace(0.001, lambda: clock.now > 0, clock.wait, lambda: clock.now)
    assert pace.turn()
    assert not pace.turn()
