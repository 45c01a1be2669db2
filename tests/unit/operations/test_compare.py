"""Pairs of messages of two publishers, without a broker."""

import tracemalloc
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest

from walrelay.operations.compare.fields import ComparedField, milliseconds
from walrelay.operations.compare.pairing import NEW, OLD, Comparing, Judging, Pairing, Side
from walrelay.operations.compare.report import Deviation, Latency
from walrelay.operations.compare.waiting import lanes
from walrelay.publish import TopicMessage

ALL = Judging(0, None)


def message(
    id_: str | None = "1",
    value: bytes | None = b"{}",
    *,
    topic: str = "old",
    key: bytes | None = b"k",
    offset: int = 0,
    at: int = 1500,
    appended: bool = False,
    headers: Iterable[tuple[str, bytes | None]] = (),
) -> TopicMessage:
    own = () if id_ is None else (("id", id_.encode()),)
    return TopicMessage(topic, 0, offset, at, appended, key, value, (*own, *headers))


def compared(
    *messages: tuple[Side, TopicMessage], judging: Judging = ALL, **rules: Any
) -> tuple[Pairing, list[Deviation]]:
    """Everything read, and what waits given up."""
    pairing = Pairing(Comparing([("old", "new")], **rules), judging)
    found = [each for side, read in messages for each in pairing.add(side, read, 0.0)]
    return pairing, [*found, *pairing.give_up(1.0)]


def beside(old: TopicMessage, new: TopicMessage, **rules: Any) -> list[str]:
    """What differs between the two of a pair."""
    _, found = compared((OLD, old), (NEW, new._replace(topic="new")), **rules)
    return [difference.what for each in found for difference in each.differences]


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        (message(), message(), []),
        (message(), message(key=b"other"), ["key"]),
        (message(), message(key=None), ["key"]),
        (message(value=b"{}"), message(value=b"{ }"), ["value"]),
        (message(value=None), message(value=b""), ["value"]),
        (message(headers=[("type", b"A")]), message(headers=[("type", b"B")]), ["header type"]),
        (message(), message(headers=[("a", None), ("b", b"")]), ["header a", "header b"]),
        (message(headers=[("a", None)]), message(headers=[("a", b"")]), ["header a"]),
        (message(headers=[("a", b"1"), ("a", b"2")]), message(headers=[("a", b"2"), ("a", b"1")]), ["header a"]),
        (message(headers=[("a", b"1"), ("b", b"2")]), message(headers=[("b", b"2"), ("a", b"1")]), []),
    ],
)
def test_what_differs_is_named(old: TopicMessage, new: TopicMessage, differs: list[str]) -> None:
    assert beside(old, new) == differs


def test_a_message_in_a_topic_that_does_not_correspond_differs_in_topic() -> None:
    pairing = Pairing(Comparing([("a", "new.a"), ("b", "new.b")]), ALL)
    assert [*pairing.add(OLD, message("1", topic="a"), 0), *pairing.add(NEW, message("1", topic="new.a"), 0)] == []
    list(pairing.add(OLD, message("2", topic="a", offset=1), 0))
    assert list(pairing.add(NEW, message("2", topic="new.b"), 0)) == [], "it may still come where it should"
    (found,) = pairing.give_up(1.0)
    assert [each.what for each in found.differences] == ["topic"]
    assert (pairing.report.pairs, pairing.report.alone) == (2, [0, 0])


TWO_TOPICS = Comparing([("a", "new.a"), ("b", "new.b")])


@pytest.mark.parametrize("id_", ["1", None])
def test_an_event_in_two_topics_is_a_pair_in_each(id_: str | None) -> None:
    pairing = Pairing(TWO_TOPICS, ALL)
    sides: list[tuple[Side, str]] = [(OLD, "a"), (OLD, "b"), (NEW, "new.b"), (NEW, "new.a")]
    for side, topic in sides:
        assert list(pairing.add(side, message(id_, topic=topic), 0)) == []
    assert (pairing.report.identical, pairing.report.repeated) == (2, [0, 0])
    list(pairing.add(NEW, message("1", topic="new.a", offset=1), 0))
    assert pairing.report.repeated == [0, int(id_ == "1")]


def test_an_event_that_is_missing_in_one_of_two_topics_is_told_of_that_topic() -> None:
    pairing = Pairing(TWO_TOPICS, ALL)
    for topic in ("a", "b"):
        assert list(pairing.add(OLD, message("1", topic=topic), 0)) == []
    assert list(pairing.add(NEW, message("1", topic="new.b"), 0)) == []
    (found,) = pairing.give_up(1.0)
    assert (found.verdict, found.old and found.old.topic) == ("only in OLD", "a")


def test_topics_that_were_one_correspond_to_it_and_not_to_others() -> None:
    assert lanes([("a", "x"), ("b", "y"), ("a", "z"), ("c", "y")]) == (
        {"a": 2, "b": 3, "c": 3},
        {"x": 2, "y": 3, "z": 2},
    )
    assert lanes([("a", "x"), ("b", "y"), ("a", "y")]) == ({"a": 2, "b": 2}, {"x": 2, "y": 2})


def test_headers_can_be_ignored_by_pattern_and_the_relay_s_own_is_always() -> None:
    new = message(headers=[("position", b"0/8:0"), ("x-1", b"")])
    assert beside(message(), new) == ["header x-1"]
    assert beside(message(), new, ignored=["x-*"]) == []
    pairing, _ = compared((OLD, message()), (NEW, new._replace(topic="new")), ignored=["x-*"])
    assert pairing.report.ignored == {"header position": 1, "header x-1": 1}


def test_a_header_of_the_other_publisher_that_the_relay_would_replace_differs() -> None:
    assert beside(message(headers=[("position", b"7")]), message(headers=[("position", b"0/8:0")])) == [
        "header position"
    ]
    assert beside(message(headers=[("position", b"7")]), message()) == ["header position"]


def test_a_value_that_differs_is_shown_around_its_first_byte_and_equal_json_is_told() -> None:
    _, found = compared(
        (OLD, message(value=b'{"a":%s, "b":1}' % (b"1" * 100))),
        (NEW, message(value=b'{"b":1, "a":%s}' % (b"1" * 100), topic="new")),
    )
    (difference,) = found[0].differences
    assert difference.new.endswith("(the same JSON)")
    _, found = compared((OLD, message(value=b"x" * 99 + b"o")), (NEW, message(value=b"x" * 99 + b"n", topic="new")))
    assert found[0].differences[0].old == f"from byte 79: '{'x' * 20}o'"


def test_without_an_id_messages_are_paired_by_key_and_value_as_often_as_they_are_there() -> None:
    pairing, found = compared(
        *((OLD, message(None, b"same", offset=offset)) for offset in range(3)),
        *((NEW, message("7" * number, b"same", topic="new")) for number in range(1, 3)),
        (NEW, message("8", b"another", topic="new")),
        ignored=["id"],
    )
    assert pairing.report.pairs == 2
    assert [each.verdict for each in found if each.verdict != "differs"] == ["only in OLD", "only in NEW"]


def test_an_id_on_both_sides_counts_more_than_the_content() -> None:
    pairing, _ = compared((OLD, message("1")), (NEW, message("2", topic="new")))
    assert (pairing.report.pairs, pairing.report.alone) == (0, [1, 1])


def test_key_and_value_are_told_apart() -> None:
    pairing, _ = compared(
        (OLD, message(None, b"bc", key=b"a")),
        (NEW, message(None, b"c", key=b"ab", topic="new")),
        (OLD, message(None, None, key=b"a")),
        (NEW, message(None, b"", key=b"a", topic="new")),
        (OLD, message(None, b"a", key=None)),
        (NEW, message(None, b"a", key=b"", topic="new")),
    )
    assert pairing.report.pairs == 0


def test_an_id_that_comes_again_is_a_repetition_and_no_fault() -> None:
    pairing, found = compared(
        (OLD, message("1")), (OLD, message("1")), (NEW, message("1", topic="new")), (NEW, message("1", topic="new"))
    )
    assert found == []
    assert pairing.report.repeated == [1, 1]
    assert pairing.report.faults == []


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_well_however_the_readings_run_beside_each_other(seed: int) -> None:
    random = Random(seed)
    queues = {side: [message(str(n), offset=n) for n in range(50)] for side in (OLD, NEW)}
    pairing = Pairing(Comparing([("old", "old")]), ALL)
    while any(queues.values()):
        side = random.choice([side for side in (OLD, NEW) if queues[side]])
        assert list(pairing.add(side, queues[side].pop(0), 0)) == []
    assert pairing.report.identical == 50


@pytest.mark.parametrize("seed", range(20))
def test_two_messages_of_a_key_that_changed_places_are_found_however_the_readings_run(seed: int) -> None:
    random = Random(seed)
    ids: dict[Side, Sequence[int]] = {OLD: range(50), NEW: [*range(30), 31, 30, *range(32, 50)]}
    queues = {side: [message(str(n), offset=at) for at, n in enumerate(ids[side])] for side in ids}
    pairing, found = Pairing(Comparing([("old", "old")]), ALL), list[Deviation]()
    while any(queues.values()):
        side = random.choice([side for side in (OLD, NEW) if queues[side]])
        found += pairing.add(side, queues[side].pop(0), 0)
    assert [[difference.what for difference in each.differences] for each in found] == [["order"]]
    assert found[0].id in ("30", "31")


def test_messages_of_different_keys_have_no_order_and_those_without_a_key_neither() -> None:
    for keys in ((b"a", b"b"), (None, None)):
        old = [message(str(n), key=key, offset=n) for n, key in enumerate(keys)]
        new = [each._replace(offset=1 - each.offset) for each in old]
        _, found = compared(*((OLD, each) for each in old), *((NEW, each) for each in reversed(new)))
        assert not [each for each in found if "order" in [difference.what for difference in each.differences]]


def test_what_came_before_the_first_pair_of_its_partition_is_not_judged() -> None:
    pairing, found = compared(
        (OLD, message("before", offset=0)),
        (OLD, message("1", offset=1)),
        (OLD, message("lost", offset=2)),
        (NEW, message("1", topic="new")),
        judging=Judging(None, None),
    )
    assert [each.id for each in found] == ["lost"]
    assert pairing.report.beside == [1, 0]


def test_with_times_only_what_is_between_them_is_judged() -> None:
    pairing, found = compared(
        *((OLD, message(str(at), at=at, offset=at)) for at in (999, 1000, 1999, 2000)), judging=Judging(1000, 2000)
    )
    assert [each.id for each in found] == ["1000", "1999"]
    assert pairing.report.beside == [2, 0]


def test_nothing_to_compare_is_a_fault() -> None:
    pairing, _ = compared()
    assert pairing.report.faults == ["no message of OLD has a counterpart in NEW"]


def test_the_window_bounds_what_waits_and_what_is_remembered() -> None:
    tracemalloc.start()
    pairing = Pairing(Comparing([("old", "new")], window=1000), ALL)
    for n in range(20_000):
        list(pairing.add(OLD, message(f"old {n}", b"x" * 100, key=b"%d" % n), 0))
        list(pairing.add(NEW, message(f"new {n // 2}", b"y" * 100, key=b"%d" % n, topic="new"), 0))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pairing.waiting(OLD) == 1000
    assert pairing.report.alone[OLD] == 19_000
    assert pairing.report.given_up_early > 19_000
    assert size < 6_000_000


def test_few_deviations_of_a_kind_are_listed_and_all_are_counted() -> None:
    pairing, found = compared(
        *((OLD, message(str(n), offset=n)) for n in range(5)),
        *((NEW, message(str(n), b"other", topic="new", offset=n)) for n in range(5)),
        (OLD, message("alone", offset=5)),
        listed=2,
    )
    assert [each.verdict for each in found] == ["differs", "differs", "only in OLD"]
    assert pairing.report.differing == {"value": 5}
    assert pairing.report.faults == ["5 differ", "1 only in OLD"]


def test_the_latency_of_old_is_from_the_relay_s_timestamp_which_is_the_commit() -> None:
    pairing, _ = compared((OLD, message(at=1570)), (NEW, message(at=1500, topic="new")))
    assert pairing.report.as_json()["latency_ms"] == {"old": {"p50": 70, "p99": 70, "max": 70}, "new": None}


def test_the_latency_of_new_is_measured_where_the_broker_gives_the_timestamp() -> None:
    created = b'{"at": 1000000000000}'
    pairing, _ = compared(
        (OLD, message(value=created, at=10**12 + 50)),
        (NEW, message(value=created, at=10**12 + 5, topic="new", appended=True)),
        created=ComparedField.parse("payload.at"),
    )
    assert [each.quantile(0.5) for each in pairing.report.latency] == [50, 5]


def test_latencies_are_counted_in_little_memory() -> None:
    latency = Latency()
    for ms in range(100_000):
        latency.add(ms)
    assert (latency.quantile(0.5), latency.quantile(0.99)) == (49_900, 98_900)
    assert len(latency._counts) < 3000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", "k"),
        ("header.a.b", "h"),
        ("payload.a.b", "1"),
        ("payload.a.text", "t"),
        ("payload.a", None),
        ("payload.no", None),
        ("payload.a.b.c", None),
        ("header.no", None),
    ],
)
def test_a_field_is_found_in_key_header_or_payload(field: str, value: str | None) -> None:
    read = message(None, b'{"a": {"b": 1, "text": "t"}}', headers=[("a.b", b"h")])
    assert ComparedField.parse(field).of(read) == value


@pytest.mark.parametrize("value", [b"no json", None, b"\xff", b"[" * 100_000, b"[1]"])
def test_a_payload_without_the_field_has_none(value: bytes | None) -> None:
    assert ComparedField.parse("payload.a").of(message(None, value)) is None


@pytest.mark.parametrize("text", ["", "id", "header.", "payload", "payload.", "payload.a..b", "key.a"])
def test_what_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither"):
        ComparedField.parse(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T20:25:00Z", 1795292700000),
        ("2026-11-21 20:25:00", 1795292700000),
        ("2026-11-21T21:25:00+01:00", 1795292700000),
        ("1795292700", 1795292700000),
        ("1795292700000", 1795292700000),
        ("1795292700000000", 1795292700000),
        ("yesterday", None),
        ("nan", None),
        (None, None),
    ],
)
def test_times_are_read_in_the_forms_that_outboxes_have(text: str | None, ms: int | None) -> None:
    assert milliseconds(text) == ms
