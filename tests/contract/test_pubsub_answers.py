"""What Pub/Sub's statuses mean, and what goes into a request: on a fake that answers as the test says."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import Any

import pytest
from grpc import StatusCode

from tests.brokers.pubsub import full_name, numbered, opened
from tests.contract.hearing import pumped_until, told
from tests.servers.pubsub_answers import Answer, PubsubAnswers
from walrelay.errors import StartAnew
from walrelay.publish import Sink
from walrelay.sinks.pubsub.plugin import plugin
from walrelay.testing import answer, complains, failure, receipts, refusal, settle

WAITING = ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL", "UNKNOWN", "CANCELLED", "FAILED_PRECONDITION"]


def to(server: PubsubAnswers, memory: Any = None, **settings: Any) -> Sink:
    return opened(memory, endpoint=f"http://{server.address}", **settings)


def once(status: str, text: str = "for now") -> Callable[[Sequence[bytes]], Answer]:
    """That status for the first request."""
    left = [(StatusCode[status], text)]
    return lambda data: left.pop() if left else None


def test_what_comes_while_a_request_is_on_its_way_goes_with_the_next_one_and_never_past_it() -> None:
    with PubsubAnswers() as server, closing(to(server)) as sink:
        for number in range(2_500):
            while not sink.publish(numbered(number), 0):
                receipts(sink, 0.05)
        pumped_until(sink, lambda: len(server.stored) == 2_500, "all of it")
        sizes = [len(request) for request in server.requests]
    assert [int(each) for each in server.stored] == [*range(2_500)]
    assert sizes[0] == 1
    assert len(sizes) < 100
    assert max(sizes) <= 1_000


def test_a_request_has_a_megabyte_or_one_message() -> None:
    with PubsubAnswers() as server, closing(to(server)) as sink:
        for number in range(20):
            assert sink.publish(numbered(number, size=3_000_000 if number == 10 else 300_000), 0)
        settle(sink, 20)
        sizes = [len(request) for request in server.requests]
    assert [int(each) for each in server.stored] == [*range(20)]
    assert sizes == [1, 3, 3, 3, 1, 3, 3, 3]


@pytest.mark.parametrize("status", WAITING)
def test_a_status_that_is_not_about_the_message_is_waited_for_and_nothing_overtakes(status: str) -> None:
    with PubsubAnswers(once(status)) as server, closing(to(server)) as sink:
        for number in range(3):
            assert sink.publish(numbered(number), 0)
        pumped_until(sink, lambda: sink.trouble(), "a complaint")
        assert sink.trouble() == f"Pub/Sub at {server.address}: {status}: for now"
        settle(sink, 3)
        assert sink.trouble() == ""
        requests = server.requests
    assert requests[:2] == [[b"0"], [b"0"]]
    assert [int(each) for each in server.stored] == [0, 1, 2]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("INVALID_ARGUMENT", ("refused", "message", False)),
        ("NOT_FOUND", ("unknown_topic", "topic", False)),
        ("PERMISSION_DENIED", ("not_authorized", "topic", False)),
    ],
)
def test_a_status_about_the_message_refuses_it(status: str, expected: tuple[str, str, bool]) -> None:
    with PubsubAnswers(once(status, "never")) as server, closing(to(server)) as sink:
        assert sink.publish(numbered(0), 0)
        refused = refusal(sink)
        assert told(refused) == expected
        assert refused.reason == f"Pub/Sub refused it for {full_name('orders')}: {status}: never"
        assert sink.publish(numbered(1), 0)
        settle(sink, 1)
    assert server.stored == [b"1"]


@pytest.mark.parametrize("status", ["UNAUTHENTICATED", "UNIMPLEMENTED", "DATA_LOSS", "DEADLINE_EXCEEDED"])
def test_a_status_that_a_new_connection_may_cure_ends_the_connection(status: str) -> None:
    with PubsubAnswers(once(status)) as server, closing(to(server)) as sink:
        assert sink.publish(numbered(0), 0)
        complains(sink, f"did not answer a request for {full_name('orders')}: {status}: for now")
        settle(sink, 1)
    assert server.stored == [b"0"]


@pytest.mark.parametrize(
    "text", ["grpc: received message larger than max (9 vs. 4)", "gRPC message exceeds maximum size 4: 9"]
)
def test_what_grpc_finds_too_large_is_refused_though_its_status_is_that_of_a_quota(text: str) -> None:
    with PubsubAnswers(once("RESOURCE_EXHAUSTED", text)) as server, closing(to(server)) as sink:
        assert sink.publish(numbered(0), 0)
        assert told(refusal(sink)) == ("too_large", "message", False)


def test_the_one_of_a_request_that_is_refused_is_found_without_reordering() -> None:
    def picky(data: Sequence[bytes]) -> Answer:
        return (StatusCode.INVALID_ARGUMENT, "no sevens") if b"7" in data else None

    memory = plugin.memory()
    with PubsubAnswers(picky) as server:
        with closing(to(server, memory)) as sink:
            for number in range(20):
                assert sink.publish(numbered(number), 0)
            assert "are sent one by one to find the one" in failure(sink, StartAnew)
        known = len(server.stored)
        assert [int(each) for each in server.stored] == [*range(known)]
        assert known <= 7
        with closing(to(server, memory)) as careful:
            number = known
            while number < 20:
                if not careful.publish(numbered(number), 0):
                    told_now = answer(careful)
                    if told_now is not None:
                        assert told_now.message.value == b"7"
                        assert told(told_now) == ("refused", "message", False)
                    continue
                number += 1
            pumped_until(careful, lambda: len(server.stored) == 19, "the last")
    assert [int(each) for each in server.stored] == [number for number in range(20) if number != 7]


def test_fewer_ids_than_messages_are_no_receipts() -> None:
    with PubsubAnswers() as server, closing(to(server)) as sink:
        server.ids = 0
        assert sink.publish(numbered(0), 0)
        complains(sink, "Pub/Sub gave 0 ids for 1 messages")


def test_a_server_that_is_away_is_waited_for() -> None:
    with closing(opened(endpoint="http://127.0.0.1:1")) as sink:
        assert sink.publish(numbered(0), 0)
        pumped_until(sink, sink.trouble, "a complaint")
        assert sink.trouble().startswith("Pub/Sub at 127.0.0.1:1: UNAVAILABLE: ")


def test_keys_do_not_wait_for_each_other() -> None:
    def slow(data: Sequence[bytes]) -> Answer:
        if data == [b"0"]:
            server.over.wait(20)
        return None

    with PubsubAnswers(slow) as server, closing(to(server)) as sink:
        assert sink.publish(numbered(0, b"slow"), 0)
        assert sink.publish(numbered(1, b"quick"), 0)
        settle(sink, 1)
        assert server.stored == [b"1"]


def test_relays_of_a_process_do_not_disturb_each_other() -> None:
    """Nor does one that is closed with requests on their way."""
    over = Event()

    def opens_and_closes() -> None:
        while not over.is_set():
            with closing(to(server)) as other:
                for number in range(50):
                    assert other.publish(numbered(number, b"%d" % number, "others"), 0)
                receipts(other, 0.01)

    with PubsubAnswers() as server, ThreadPoolExecutor(2) as threads:
        others = [threads.submit(opens_and_closes) for _ in range(2)]
        try:
            with closing(to(server)) as sink:
                for number in range(1_000):
                    while not sink.publish(numbered(number, b"key-%d" % (number % 200)), 0):
                        receipts(sink, 0.05)
                pumped_until(sink, lambda: not sink._in_flight, "every answer")  # type: ignore[attr-defined]
        finally:
            over.set()
        for each in others:
            each.result(30)
