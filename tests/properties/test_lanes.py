"""Lanes and the hosted sink, with a broker that answers, refuses and breaks as it likes: a fake, in the real loop."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.servers.waiting import wait_until
from walrelay.errors import Fatal, Retryable, StartAnew, WalrelayError
from walrelay.model import Message, Receipt, Refusal
from walrelay.sinks.hosting import HostedSink, Lanes, Misfit, PumpedLoop, RefusalMemory, Sending, Window

KEYS = ["a", "b", "c", None]


class FakeBroker:
    """Keeps what it was sent until it is told what to do with it."""

    def __init__(self) -> None:
        self.held: list[Sending] = []
        self.stored: list[Message] = []
        self.refused: list[Message] = []
        self.fail: Callable[[WalrelayError], None] = lambda why: None

    def connect(self, loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> "FakeBroker":
        self.fail = fail
        self.held = []
        return self

    async def open(self) -> None:
        pass

    def send(self, sending: Sending) -> None:
        lanes = [held.lane for held in self.held]
        assert sending.lane not in lanes, "two of a lane on their way"
        gone = {(message.topic, message.key) for message in self.refused}
        assert not gone & {(message.topic, message.key) for message, _ in sending.taken}, "sent behind a refused one"
        self.held.append(sending)

    def push(self) -> None:
        pass

    def misfit(self, message: Message) -> Misfit | None:
        return Misfit("it is odd", "Mend it.") if message.value == b"odd" else None

    def trouble(self) -> str:
        return ""

    def close(self) -> None:
        pass


def message(key: str | None, number: int) -> Message:
    return Message("t", None if key is None else key.encode(), str(number).encode(), [], 0)


@settings(max_examples=150, deadline=None)
@example(1, [("publish", 1), ("publish", 0), ("publish", 1), *[("refuse", 0), ("ask", 0)] * 2, ("publish", 0)])
@given(
    st.integers(1, 4),
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(0, 3)),
            st.tuples(st.sampled_from(["store", "refuse", "put off", "break", "ask"]), st.integers(0, 20)),
        ),
        max_size=60,
    ),
)
def test_no_two_of_a_key_are_on_their_way_and_nothing_of_it_is_sent_after_its_refusal(
    width: int, steps: list[tuple[str, int]]
) -> None:
    broker, memory = FakeBroker(), RefusalMemory()
    sink = HostedSink(broker.connect, Window(8, 10_000, 60), memory, "the fake", width=width)
    taken: list[Message] = []
    told: list[Message] = []
    settled: Counter[int] = Counter()
    ended = False
    with closing(sink):
        sink.flush(0)
        for step, number in steps:
            if step == "publish":
                offered = message(KEYS[number], len(taken))
                if sink.publish(offered, len(taken) % 3):
                    assert not ended, "a message was taken after the sink had ended"
                    taken.append(offered)
            elif step == "ask":
                for each in sink.receipts(0):
                    if isinstance(each, Receipt):
                        settled[each.ticket] += each.messages
                    else:
                        ended |= each.ends
                        told.append(each.message)
            elif step == "break":
                if number == 0:
                    broker.fail(Retryable("the fake broke"))
            elif broker.held:
                sending = broker.held.pop(number % len(broker.held))
                if step == "put off":
                    sending.not_now("it is full")
                elif step == "store":
                    sending.durable()
                    broker.stored += [each for each, _ in sending.taken]
                else:
                    if len(sending.taken) == 1:
                        broker.refused.append(sending.taken[0].message)
                    sending.refused("no", "never")
                sending.durable()  # a second answer to the same says nothing
    for key in {each.key for each in taken}:
        sent = [each for each in taken if each.key == key]
        stored = [each for each in broker.stored if each.key == key]
        left = [each for each in sent if each not in broker.refused]
        assert stored == left[: len(stored)], "not in the order of the key"
    assert settled.total() <= len(broker.stored)
    assert all(each in broker.refused for each in told)


@given(st.integers(1, 5), st.lists(st.tuples(st.sampled_from(["enter", "leave"]), st.integers(0, 2)), max_size=80))
def test_lanes_give_out_everything_once_and_in_order(width: int, steps: list[tuple[str, int]]) -> None:
    lanes: Lanes[int] = Lanes(width)
    entered: dict[int, list[int]] = {0: [], 1: [], 2: []}
    gave: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for number, (step, lane) in enumerate(steps):
        if step == "enter":
            entered[lane].append(number)
            if lanes.enter(lane, number):
                gave[lane].append(number)
        elif lanes.busy(lane):
            following = lanes.leave(lane)
            assert len(following) <= width
            gave[lane] += following
    for lane in entered:
        assert gave[lane] == entered[lane][: len(gave[lane])]
    waiting = sum(len(entered[lane]) - len(gave[lane]) for lane in entered)
    assert lanes.held == waiting


def test_what_leaves_a_lane_together_has_a_size_and_a_single_one_may_be_larger() -> None:
    lanes = Lanes[int](4, size_of=lambda item: item, most=10)
    assert lanes.enter("a", 1)
    assert not any(lanes.enter("a", size) for size in (5, 5, 1, 30, 9, 1, 1, 0, 0, 0))
    gave = [lanes.leave("a") for _ in range(6)]
    assert gave == [[5, 5], [1], [30], [9, 1], [1, 0, 0, 0], []]


def test_a_message_that_does_not_fit_is_refused_before_anything_of_it_is_sent() -> None:
    broker = FakeBroker()
    sink = HostedSink(broker.connect, Window(8, 10_000, 60), RefusalMemory(), "the fake")
    sink.flush(0)
    odd = Message("t", b"a", b"odd", [], 0)
    assert sink.publish(message("a", 1), 0)
    assert sink.publish(odd, 1)
    assert not sink.publish(message("a", 2), 2), "taken before the refusal was told"
    assert [*sink.receipts(0)] == [Refusal(1, odd, "it is odd", "Mend it.", "serialization", ends=False)]
    assert sink.publish(message("a", 2), 2)
    sink.close()


def test_a_broker_that_never_answers_is_asked_again_by_another_connection() -> None:
    broker = FakeBroker()
    with closing(
        HostedSink(broker.connect, Window(8, 10_000, 0.01), RefusalMemory(), "the fake", address="h:1")
    ) as sink:
        assert sink.trouble() == "not connected to the fake at h:1 yet"
        sink.flush(0)
        assert sink.trouble() == ""
        assert sink.publish(message("a", 1), 7)
        (unanswered,) = broker.held
        wait_until(lambda: not [*sink.receipts(0.01)] and broker.held not in ([], [unanswered]), 30, "another attempt")
        assert sink.trouble() == "the fake has not answered for 0.01 s to a message for 't' (h:1)"
        unanswered.durable()
        assert not [*sink.receipts(0)], "a late answer counts"
        broker.held.pop().durable()
        assert [*sink.receipts(0)] == [Receipt(7, 1)]
        assert sink.trouble() == ""


def test_what_is_not_taken_now_is_sent_again_and_holds_up_nothing_but_its_lane() -> None:
    broker = FakeBroker()
    with closing(HostedSink(broker.connect, Window(8, 10_000, 60), RefusalMemory(), "the fake")) as sink:
        sink.flush(0)
        for key, number in (("a", 1), ("a", 2), ("b", 3)):
            assert sink.publish(message(key, number), number)
        full, other = broker.held
        broker.held = []
        full.not_now("it is full")
        other.durable()
        assert [*sink.receipts(0)] == [Receipt(3, 1)]
        assert (sink.trouble(), broker.held) == ("it is full", [])
        wait_until(lambda: not [*sink.receipts(0.01)] and broker.held, 30, "another attempt")
        assert sink.trouble() == ""
        broker.held.pop().durable()
        assert [each.taken[0].ticket for each in broker.held] == [2]
        assert [*sink.receipts(0)] == [Receipt(1, 1)]


@pytest.mark.parametrize("end", [Fatal("there is no such server"), StartAnew("another run shall do it")])
def test_what_no_other_connection_can_cure_ends_the_sink(end: WalrelayError) -> None:
    broker = FakeBroker()
    with closing(HostedSink(broker.connect, Window(8, 10_000, 60), RefusalMemory(), "the fake")) as sink:
        sink.flush(0)
        broker.fail(Retryable("the connection is gone"))
        broker.fail(end)
        with pytest.raises(type(end)):
            list(sink.receipts(0))
