"""The last events of a relay: how many are kept, what is held of them, and when they became durable."""

from sys import getrefcount
from typing import Any

import pytest

from walrelay.control.recent import EventRing
from walrelay.lsn import LSN
from walrelay.model import Message
from walrelay.observe import Relayed
from walrelay.wiring import EventOptions


def message(number: int, value: bytes | None = b"{}", topic: str = "orders") -> Message:
    headers: list[tuple[str, bytes | None]] = [
        ("id", b"own"),
        ("id", b"%d" % number),
        ("position", b"0/64:%d" % number),
    ]
    return Message(topic, b"key", value, headers, 1_000)


class Kept:
    """Recent events whose clock a test moves."""

    def __init__(self, keep: int = 10, *, several_sinks: bool = False, **options: Any) -> None:
        self.now = 0.0
        self.events = EventRing(EventOptions(keep, **options), several_sinks=several_sinks, clock=lambda: self.now)

    def add(self, *numbers: int, last: int = 100, **more: Any) -> None:
        taken = [message(number, **more) for number in numbers]
        self.events.add(Relayed(len(taken), len(taken), taken, last=LSN(last), read_at=self.now))

    def of(self, member: str, after: int = 0) -> list[Any]:
        return [each[member] for each in self.events.after(after)]


def test_the_newest_are_kept_whatever_the_size_of_the_turns() -> None:
    kept = Kept()
    kept.add(1, 2, 3)
    assert (kept.of("id"), kept.of("number"), kept.events.kept) == (["3", "2", "1"], [3, 2, 1], 3)
    for number in range(4, 30):
        kept.add(number)
    assert kept.of("id") == [str(number) for number in range(29, 19, -1)]
    kept.now = 2.0
    kept.add(*range(30, 90))
    assert kept.of("id") == [str(number) for number in range(89, 79, -1)]
    assert (kept.events.kept, kept.events.last) == (10, 89)
    kept.add(90, 91, 92)
    assert kept.of("id") == [str(number) for number in range(92, 82, -1)]
    assert kept.of("id", after=90) == ["92", "91"]
    assert kept.of("id", after=99) == []


def test_where_large_turns_follow_closely_the_first_and_the_end_of_the_last_are_there() -> None:
    kept = Kept(100)
    for number in range(50):
        kept.add(*range(100 * number, 100 * number + 100))
    assert kept.of("id") == [str(number) for number in [*range(4_999, 4_991, -1), *range(99, 7, -1)]]
    assert kept.of("number")[0] == 5_000
    kept.events.confirmed(LSN(101))
    assert None not in kept.of("confirmed_at")
    assert kept.events.kept == 100
    kept.events.idle()
    kept.add(5_000)
    assert kept.of("id")[:9] == [str(number) for number in range(5_000, 4_991, -1)]
    kept.now = 2.0
    kept.add(*range(6_000, 6_100))
    assert kept.of("id") == [str(number) for number in range(6_099, 5_999, -1)]
    for waiting in (kept.events._unacknowledged, kept.events._unconfirmed):
        assert len(waiting) <= 2


def test_an_event_says_what_its_message_said() -> None:
    kept = Kept(several_sinks=True)
    kept.now = 5.0
    kept.add(7, topic="left:a:b", value=b"12345")
    kept.events.add(Relayed(1, 1, [Message("right:c", None, None, [], 2_000)], last=LSN(0x65), read_at=6.0))
    bare, whole = kept.events.after(0)
    assert whole == {
        "number": 1,
        "at": 5.0,
        "id": "7",
        "type": None,
        "topic": "a:b",
        "sink": "left",
        "key": "key",
        "position": "0/64:7",
        "commit_lsn": "0/64",
        "committed_at": 1.0,
        "read_at": 5.0,
        "published_at": 5.0,
        "acknowledged_at": None,
        "confirmed_at": None,
        "bytes": 5,
    }
    assert (bare["id"], bare["key"], bare["position"], bare["commit_lsn"], bare["bytes"]) == (
        None,
        None,
        None,
        "0/65",
        0,
    )


def test_values_are_let_go_of_as_soon_as_there_is_time_and_when_they_are_large() -> None:
    kept, values = Kept(1_000), list[bytes]()

    def gone() -> int:
        return sum(getrefcount(values[place]) == 2 for place in range(len(values)))

    def add(size: int) -> None:
        values.append(bytes(size))
        kept.add(1, value=values[-1])

    for _ in range(10):
        add(2**20)
    assert gone() == 6, "no more than four megabytes are held"
    for _ in range(300):
        add(10)
    assert gone() == 7
    kept.events.idle()
    assert 7 < gone() < 300, "only for a moment at a time"
    for _ in range(3):
        kept.events.idle()
    assert gone() == 310
    assert kept.of("bytes") == [10] * 300 + [2**20] * 10


def test_what_is_long_is_cut() -> None:
    kept = Kept()
    kept.events.add(Relayed(1, 1, [Message("t", b"k" * 10_000, b"", [("id", b"\xff" * 10_000)], 0)]))
    (event,) = kept.events.after(0)
    assert (len(event["key"]), len(event["id"])) == (200, 200)


def test_when_events_became_durable_and_confirmed() -> None:
    kept = Kept()
    kept.add(1, last=100)
    kept.add(2, last=200)
    kept.add(3, last=300)
    kept.now = 1.0
    kept.events.acknowledged(LSN(200))
    assert kept.of("acknowledged_at") == [None, 1.0, 1.0]
    kept.now = 2.0
    kept.events.confirmed(LSN(200))  # where the transaction at 200 begins to be committed
    assert kept.of("confirmed_at") == [None, None, 2.0]
    kept.now = 3.0
    kept.events.confirmed(LSN(301))
    assert kept.of("confirmed_at") == [3.0, 3.0, 2.0]
    assert kept.of("acknowledged_at") == [3.0, 1.0, 1.0]


def test_what_comes_again_does_not_count_as_durable() -> None:
    kept = Kept()
    kept.add(1, last=100)
    kept.add(2, last=200)
    kept.events.streaming(LSN(150))
    kept.add(2, last=200)
    kept.now = 1.0
    kept.events.confirmed(LSN(201))
    assert kept.of("id") == ["2", "2", "1"]
    assert kept.of("confirmed_at") == [1.0, None, 1.0]


def test_what_waits_for_long_is_forgotten_with_its_event() -> None:
    kept = Kept(2)
    for number in range(1_000):
        kept.add(number, last=number)
    for waiting in (kept.events._unacknowledged, kept.events._unconfirmed, kept.events._turns, kept.events._raw):
        assert len(waiting) == 2
    kept.events.confirmed(LSN(5_000))
    assert None not in kept.of("confirmed_at")


@pytest.mark.parametrize(
    ("topic", "payload", "shown"),
    [
        ("left:orders", b'{"card": {"number": 1.50, "a": 2}}', '{"card": {"number": 1.50, "a": 2}}'),
        ("left:payments.eu", b'{"card": {"number": 1.50, "a": 2}}', '{"card": {"number": null, "a": 2}}'),
        ("left:payments.eu", b"[{}, 4]", "[{}, 4]"),
        ("left:payments.eu", b"4711 is the number", "***"),
        ("left:payments.eu", b"\xff", "***"),
        ("left:orders", b"\xff\x00", "\\xff00"),
        ("left:audit", b"{}", "***"),
        ("right:all", b"{}", "***"),
    ],
)
def test_payloads_are_shown_as_the_rules_say(topic: str, payload: bytes, shown: str) -> None:
    redact = (("payments.*", (("card", "number"), ("owner",))), ("audit", ()), ("right:*", ()))
    kept = Kept(payloads=True, redact=redact, several_sinks=True)
    kept.add(1, value=payload, topic=topic)
    assert kept.of("payload") == [shown]
    kept.events.idle()
    assert kept.of("payload") == [shown]


def test_payloads_that_are_large_or_not_wanted_are_not_kept() -> None:
    kept = Kept(payloads=True)
    kept.add(1, value=bytes(20_000))
    kept.add(1, value=None)
    assert all("payload" not in each for each in kept.events.after(0))
    kept = Kept()
    kept.add(1)
    assert all("payload" not in each for each in kept.events.after(0))


def test_the_payload_of_a_dead_letter_is_redacted_as_for_every_topic() -> None:
    kept = Kept(payloads=True, redact=(("orders", (("a",),)), ("payments", (("b",),))))
    letter = message(1, b'{"a": 1, "b": 2}', topic="dead")
    letter = letter._replace(headers=[*letter.headers, ("dead_letter_error", b"unroutable")])
    kept.events.add(Relayed(1, 1, [letter, message(2, b'{"a": 1}', topic="dead")], last=LSN(100), read_at=0.0))
    assert kept.of("payload") == ['{"a": 1}', '{"a": null, "b": null}']
