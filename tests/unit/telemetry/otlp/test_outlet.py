"""What leaves for a collector is bounded, and what is lost is counted."""

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Event

from tests.servers.waiting import wait_until
from walrelay.telemetry.otlp.outlet import BATCH, Outlet, Pulse


def outlet(send: Callable[[Sequence[int]], str], said: list[str], room: int = 10_000) -> Outlet[int]:
    return Outlet("traces", send, said.append, room=room)


def test_everything_is_sent_in_order_and_in_batches() -> None:
    sent, lost = list[Sequence[int]](), Counter[str]()

    def send(batch: Sequence[int]) -> str:
        sent.append(batch)
        return ""

    out = outlet(send, [])
    for number in range(2 * BATCH):
        out.offer(number, lost)
    out.end()
    out.join(60)
    assert [number for batch in sent for number in batch] == [*range(2 * BATCH)]
    assert max(map(len, sent)) <= BATCH
    assert not lost


def test_what_has_no_room_is_dropped_and_counted_while_the_collector_does_not_answer() -> None:
    asked, answer, lost = Event(), Event(), Counter[str]()

    def send(batch: Sequence[int]) -> str:
        asked.set()
        answer.wait(60)
        return ""

    out = outlet(send, [], room=3)
    out.offer(0, lost)
    assert asked.wait(60)
    for number in range(5):
        out.offer(number, lost)
    assert (out.room, lost) == (0, {"traces": 2})
    answer.set()
    out.end()
    out.join(60)
    assert lost == {"traces": 2}


def test_a_collector_that_takes_nothing_is_told_of_once_and_again_when_it_does() -> None:
    said, lost, why = list[str](), Counter[str](), ["Connection refused"]
    out = outlet(lambda batch: why[0], said)
    for number in range(1, 4):
        out.offer(number, lost)
        wait_until(lambda number=number: lost["traces"] == number, 60, "it to be lost")  # type: ignore[misc]
    (only,) = said
    assert only.endswith("does not take traces, what has no room is dropped: Connection refused")
    why[0] = ""
    out.offer(4, lost)
    wait_until(lambda: said[1:] == ["the OpenTelemetry collector takes traces again"], 60, "it to be said")
    assert lost == {"traces": 3}
    out.end()
    out.join(60)


def test_an_error_of_a_library_is_a_loss_and_nothing_more() -> None:
    said, lost = list[str](), Counter[str]()

    def send(batch: Sequence[int]) -> str:
        raise RuntimeError("nonsense")

    out = outlet(send, said)
    out.offer(1, lost)
    out.end()
    out.join(60)
    out.offer(2, lost)
    assert lost == {"traces": 2}
    assert said[0].endswith("RuntimeError: nonsense")


def test_metrics_are_sent_once_more_at_the_end() -> None:
    sent = list[bool]()

    def send(last: bool) -> str:
        sent.append(last)
        return ""

    pulse = Pulse("metrics", send, lambda _: None, 0.01)
    wait_until(lambda: len(sent) > 2, 60, "several exports")
    pulse.end()
    pulse.join(60)
    assert sent[-1]
    assert not any(sent[:-1])
