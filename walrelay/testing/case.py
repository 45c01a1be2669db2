"""What the author of a sink writes for the tests, `Case`; and what tests do with a sink, one call each."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple, Protocol

from walrelay.errors import Retryable, WalrelayError
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


def settle(sink: Sink, count: int, settled: Counter[int] | None = None, timeout: float = 180) -> Counter[int]:
    """Returns when so many messages are durable."""
    total, deadline = settled or Counter(), monotonic() + timeout
    while total.total() < count:
        assert monotonic() < deadline, f"{total.total()} receipts for {count} messages in {timeout:g} s"
        sink.flush(0.05)
        total.update(receipts(sink, 0.05))
    return total


def refusal(sink: Sink, timeout: float = 30) -> Refusal:
    """The next one; receipts that come before it do not count."""
    deadline = monotonic() + timeout
    while monotonic() < deadline:
        for told in sink.receipts(0.05):
            if isinstance(told, Refusal):
                return told
    raise AssertionError(f"nothing was refused in {timeout:g} s")


def failure(sink: Sink, kind: type[WalrelayError] = Retryable, timeout: float = 30) -> str:
    """The text of the error that the sink ends in; a refusal before it fails the test."""
    deadline = monotonic() + timeout
    try:
        while monotonic() < deadline:
            assert all(isinstance(told, Receipt) for told in sink.receipts(0.05))
    except kind as why:
        return str(why)
    raise AssertionError(f"it did not fail in {timeout:g} s")


def complains(sink: Sink, why: str = "", timeout: float = 30) -> str:
    """Returns when the sink says so, in `trouble` or in the error that it ends in; a refusal before it fails the
    test. `why` empty: anything but that it is not connected yet.
    """
    told, deadline = "", monotonic() + timeout
    while why not in told or not told or told.endswith("yet"):
        assert monotonic() < deadline, f"it did not say {why!r} in {timeout:g} s, but {told!r}"
        try:
            assert all(isinstance(heard, Receipt) for heard in sink.receipts(0.05))
            told = sink.trouble()
        except Retryable as error:
            told = str(error)
            break
    assert why in told, told
    return told


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
