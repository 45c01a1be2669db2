"""The conformance tests of a sink, for pytest classes to inherit; `Case` is all that the author of a sink writes.

    class TestMySink(AwayContract):
        @pytest.fixture
        def case(self) -> Iterator[Case]: ...

The broker is the real one: a sink is as good as what its broker does when it is stopped.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from statistics import median
from time import monotonic
from typing import NamedTuple, Protocol

from walrelay.model import Message, Receipt, Refusal
from walrelay.publish import Sink

NASTY_HEADERS: Mapping[str, list[tuple[str, bytes | None]]] = {
    "no value": [("a", None)],
    "an empty value": [("a", b"")],
    "an empty name": [("", b"1")],
    "a name of 300 characters": [("n" * 300, b"1")],
    "a name with a blank": [("a b", b"1")],
    "a name with a colon": [("a:b", b"1")],
    "a name with a line's end": [("a\r\nb", b"1")],
    "a name that is not ASCII": [("ü ☃", b"1")],
    "a name in capitals": [("Trace-ID", b"1")],
    "a name twice": [("a", b"1"), ("a", b"2")],
    "names that differ in their case": [("a", b"1"), ("A", b"2")],
    "not UTF-8": [("a", b"\xff\xfe")],
    "UTF-8": [("a", "ü ☃".encode())],
    "a zero byte": [("a", b"a\0b")],
    "a line's end": [("a", b"a\r\nX-Injected: b")],
    "blanks around it": [("a", b"  a ")],
    "70,000 bytes": [("a", b"x" * 70_000)],
    "200,000 bytes": [("a", b"x" * 200_000)],
    "100 of them": [(f"name-{number}", b"1") for number in range(100)],
    "further routing keys of RabbitMQ": [("CC", b"elsewhere"), ("BCC", b"elsewhere")],
    "a roll-up of NATS": [("Nats-Rollup", b"all")],
    "an id of NATS": [("nats-msg-id", b"0")],
    "HTTP's own": [("Host", b"elsewhere"), ("Content-Length", b"1"), ("Transfer-Encoding", b"chunked")],
    "a webhook's own": [("webhook-id", b"0"), ("webhook-signature", b"v1,forged")],
    "AWS's own": [("AWS.x", b"1")],
    "Google's own": [("googclient_x", b"1")],
    "the key": [("key", b"1")],
    "the name that the sink may use for the position": [("position", b"0/2:0")],
}
"""Headers that a client or a broker may alter, obey, choke on or forget, by what is nasty about them."""

_KEYS = ["a", "b", "c", "d"]
_MANY = 2000
_MARKER = 1_000_000


class Arrived(NamedTuple):
    """A message as a consumer sees it."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Case(Protocol):
    """A sink and its broker. `topic` has several partitions where there are such."""

    topic: str

    def open(self, *, room: int = 10_000) -> Sink:
        """A new sink with room for about so many messages; the test closes it."""
        ...

    def hold(self) -> None:
        """From now on the broker takes nothing, and says nothing."""
        ...

    def release(self) -> None:
        """The broker goes on."""
        ...

    def arrived(self) -> list[Arrived]:
        """What consumers have got so far, each key's messages in their order."""
        ...


class ReceiptContract:
    """For a sink that keeps nothing a test could look at. A test gets its `Case` from a fixture of that name."""

    def test_receipts_count_each_transaction_exactly(self, case: Case) -> None:
        sizes = {7: 1, 8: 300, 9: 2, 12: 50}
        settled: Counter[int] = Counter()
        with closing(case.open()) as sink:
            for ticket, count in sizes.items():
                settled += publish(sink, case, range(count), ticket=ticket)
                settled += receipts(sink, 0)
            settled = settle(sink, sum(sizes.values()), settled) + receipts(sink, 0.1)
        assert settled == sizes, f"receipts {dict(settled)} for messages {sizes}"

    def test_close_may_be_called_twice(self, case: Case) -> None:
        sink = case.open()
        sink.publish(message(case, 0), ticket=0)
        sink.close()
        sink.close()


class SinkContract(ReceiptContract):
    """For a sink whose broker is always there."""

    def test_messages_of_a_key_arrive_in_the_order_they_were_published(self, case: Case) -> None:
        with closing(case.open()) as sink:
            for number in range(_MANY):
                for key in _KEYS:
                    assert sink.publish(message(case, number, key=key), ticket=0), "there was no room for 10,000"
            settle(sink, _MANY * len(_KEYS))
        arrived = case.arrived()
        for key in _KEYS:
            assert numbers(arrived, key) == list(range(_MANY)), f"not every message of {key!r} once and in order"
        assert arrived[0].headers == [("id", b"0"), ("position", b"0/1:0")], arrived[0].headers

    def test_a_header_arrives_as_it_is_or_its_message_is_refused(self, case: Case) -> None:
        """Never altered, never obeyed, never forgotten. What is refused is not sent, and what follows arrives."""
        expected: list[list[tuple[str, bytes | None]]] = []
        with closing(case.open()) as sink:
            for number, (name, headers) in enumerate(NASTY_HEADERS.items()):
                plain = message(case, number)
                nasty = plain._replace(headers=[*plain.headers, *headers])
                assert sink.publish(nasty, ticket=0), "there was no room"
                refusal = answer(sink)
                if refusal is None:
                    expected.append(nasty.headers)
                else:
                    told = refusal.message, refusal.error, refusal.scope, refusal.ends
                    assert told == (nasty, "serialization", "message", False), f"{name}: {refusal}"
            assert sink.publish(message(case, len(NASTY_HEADERS)), ticket=0), "a refusal left no room"
            settle(sink, 1)
        *arrived, _ = case.arrived()
        for got, sent in zip(arrived, expected, strict=True):
            assert sorted(got.headers, key=repr) == sorted(sent, key=repr), f"altered: {sent}"


class AwayContract(SinkContract):
    """For a sink whose broker can be away."""

    def test_no_room_means_that_nothing_was_taken(self, case: Case) -> None:
        size, accepted, refused = 10_000, 0, False
        with closing(case.open(room=50)) as sink:
            with held(case):
                while sink.publish(message(case, accepted, size=size), ticket=0):
                    accepted += 1
                    assert accepted < 10_000, "there is always room while nothing moves"
                refused = not sink.publish(message(case, accepted, size=size), ticket=0)
            settled = publish(sink, case, range(accepted, accepted + 100), size=size)
            assert refused, "there was room again though nothing moved"
            settle(sink, accepted + 100, settled)
        assert numbers(case.arrived()) == list(range(accepted + 100)), "not every message once and in order"

    def test_no_call_waits_longer_than_it_may_while_the_broker_is_away(self, case: Case) -> None:
        with closing(case.open(room=100)) as sink, held(case):
            waited = [seconds(lambda: sink.publish(message(case, 0, size=10_000), 0)) for _ in range(300)]
            assert median(waited) < 0.1, "publish waits"
            assert max(waited) < 3, "publish waited"
            list(sink.receipts(1))  # a pipe still takes some
            assert seconds(lambda: list(sink.receipts(0.2))) < 3, "receipts waited"
            assert seconds(lambda: sink.flush(0.2)) < 3, "flush waited"

    def test_close_lets_go_of_what_has_no_receipt(self, case: Case) -> None:
        """What was on its way already may arrive, in order; the next run publishes all of it again."""
        size = 1000
        with closing(case.open()) as sink:
            settled = settle(sink, 10, publish(sink, case, range(10), size=size)).total()
            with held(case):
                number = 10
                while number < 9000 and sink.publish(message(case, number, size=size), ticket=1):
                    number += 1
                settled += receipts(sink, 0.2).total()
                assert seconds(sink.close) < 5, "close waited"
                sink.close()
        with closing(case.open()) as successor:
            assert successor.publish(message(case, _MARKER), ticket=0)
            settle(successor, 1)
        *arrived, last = numbers(case.arrived())
        assert last == _MARKER, "something came after the next sink had begun"
        assert arrived == list(range(len(arrived))), "not in order"
        assert settled <= len(arrived) < number, f"{settled} receipts, {len(arrived)} of {number} messages arrived"


@contextmanager
def held(case: Case) -> Iterator[None]:
    """The broker takes nothing inside the block."""
    case.hold()
    try:
        yield
    finally:
        case.release()


def message(case: Case, number: int, *, key: str = "a", size: int = 0) -> Message:
    """The number is the message's value, padded to `size`."""
    value = str(number).rjust(size, "x").encode()
    headers: list[tuple[str, bytes | None]] = [("id", str(number).encode()), ("position", b"0/1:0")]
    return Message(case.topic, key.encode(), value, headers, 1_700_000_000_000)


def numbers(arrived: list[Arrived], key: str = "a") -> list[int]:
    """The numbers of the messages of that key, in the order they arrived in."""
    return [int((got.value or b"").lstrip(b"x")) for got in arrived if got.key == key.encode()]


def publish(sink: Sink, case: Case, numbered: range, *, ticket: int = 0, size: int = 0) -> Counter[int]:
    """Publishes as the relay does, offering a message again until there is room; what was settled meanwhile."""
    settled: Counter[int] = Counter()
    for number in numbered:
        deadline = monotonic() + 60
        while not sink.publish(message(case, number, size=size), ticket):
            assert monotonic() < deadline, f"no room for message {number} in 60 s"
            settled += receipts(sink, 0.05)
    return settled


def receipts(sink: Sink, timeout: float) -> Counter[int]:
    """ticket -> messages that became durable since the last call; a refusal fails the test."""
    counts: Counter[int] = Counter()
    for receipt in sink.receipts(timeout):
        assert isinstance(receipt, Receipt), receipt
        assert receipt.messages > 0, receipt
        counts[receipt.ticket] += receipt.messages
    return counts


def settle(sink: Sink, count: int, settled: Counter[int] | None = None, timeout: float = 60) -> Counter[int]:
    """Returns when so many messages are durable."""
    total, deadline = settled or Counter(), monotonic() + timeout
    while total.total() < count:
        assert monotonic() < deadline, f"{total.total()} receipts for {count} messages in {timeout:g} s"
        sink.flush(0.05)
        total.update(receipts(sink, 0.05))
    return total


def answer(sink: Sink, timeout: float = 60) -> Refusal | None:
    """What becomes of the one message that is on its way: its refusal, or None where it is durable."""
    deadline = monotonic() + timeout
    while monotonic() < deadline:
        sink.flush(0.05)
        for told in sink.receipts(0.05):
            return told if isinstance(told, Refusal) else None
    raise AssertionError(f"neither a receipt nor a refusal in {timeout:g} s")


def seconds(call: Callable[[], object]) -> float:
    """How long it takes."""
    began = monotonic()
    call()
    return monotonic() - began
