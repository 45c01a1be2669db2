"""The account of an audit: rows against messages, without a broker."""

import tracemalloc
from uuid import uuid4

from walrelay.operations.audit.reconciliation import AuditTally, within_keys
from walrelay.publish import Found

SINCE, UNTIL = 1000, 2000


def message(
    id_: str, position: str, *, at: int = 1500, partition: int = 0, offset: int = 0, key: bytes = b"k", **flags: bool
) -> Found:
    replayed, letter = flags.get("replayed", False), flags.get("letter", False)
    return Found("t", partition, offset, at, key, id_, position, replayed, letter)


def tally(*rows: str, listed: int = 10) -> AuditTally:
    account = AuditTally(SINCE, UNTIL, listed)
    for row in rows:
        account.expect(row)
    return account


def test_rows_without_a_message_are_missing() -> None:
    account = tally("a", "b")
    account.found(message("a", "0/8:0"))
    assert (account.rows, account.missing) == (2, 1)
    assert account.is_missing("b")
    assert not account.is_missing("a")
    assert not account.is_missing("never heard of")


def test_a_replayed_message_is_an_arrival() -> None:
    account = tally("a")
    account.found(message("a", "0/0:0", replayed=True))
    assert (account.missing, account.again, account.times()) == (0, 1, {})


def test_messages_of_the_stream_are_counted_for_each_event() -> None:
    account = tally("a", "b", "c")
    for id_ in "aabbbc":
        account.found(message(id_, f"0/{ord(id_):X}8:0"))
    assert account.times() == {2: 1, 3: 1}
    assert [each.id for each in account.repetitions] == ["a", "b", "b"]
    assert account.misplaced == 0, "a repetition is no first delivery"


def test_a_row_can_be_due_to_several_topics_and_more_than_once_to_one() -> None:
    account = AuditTally(SINCE, UNTIL, 10, by_topic=True)
    account.expect("a", ["t", "t", "u"])
    assert (account.rows, account.due, account.missing) == (1, 2, 2)
    assert [account.lacking("a", topic) for topic in "tuv"] == [2, 1, 0]
    account.found(message("a", "0/8:0"))
    assert account.is_missing("a", "t")
    assert account.lacking("a", "t") == 1
    account.found(message("a", "0/8:0", offset=1))
    assert not account.is_missing("a", "t")
    assert account.is_missing("a", "u")
    assert (account.missing, account.times(), account.misplaced) == (1, {}, 0)
    account.found(message("a", "0/8:0", offset=2))
    assert account.times() == {2: 1}
    account.found(message("a", "0/8:0", letter=True)._replace(topic="letters"))
    assert (account.is_letter("a"), account.missing, account.strangers) == (True, 1, 0)
    account.found(message("a", "0/0:1", replayed=True)._replace(topic="u"))
    assert (account.missing, account.again) == (0, 1)


def test_first_deliveries_are_judged_within_their_partition() -> None:
    account = tally("a", "b", "c", "d")
    account.found(message("a", "0/20:0"))
    account.found(message("b", "0/18:0", partition=1))
    account.found(message("c", "0/20:1"))
    assert account.misplaced == 0
    account.found(message("d", "0/20:0"))
    (out,) = account.out_of_order
    assert (out.found.id, out.behind) == ("d", "0/20:1")


def test_a_row_behind_a_message_of_a_later_period_is_out_of_order() -> None:
    account = tally("a")
    account.found(message("later", "0/80:0", at=UNTIL + 1))
    account.found(message("a", "0/20:0"))
    assert account.misplaced == 1
    assert account.strangers == 0


def test_what_came_from_the_table_neither_is_judged_nor_counts_as_before() -> None:
    account = tally("a", "b", "c")
    account.found(message("a", "0/F6:0"))  # of a backfill, just before its slot's first
    account.found(message("b", "0/20:0"))
    account.found(message("c", "0/0:5", replayed=True))
    account.found(message("a", "0/18:0", replayed=True))  # a dead letter's replay has its own position
    assert (account.misplaced, account.missing, account.again) == (0, 0, 3)


def test_events_of_the_period_that_the_table_does_not_have_are_only_counted() -> None:
    account = tally("a")
    account.beside("neighbour")
    for id_, at in (("gone", 1500), ("gone", 1600), ("neighbour", 1999), ("before", 999), ("after", 2000)):
        account.found(message(id_, "0/8:0", at=at))
    assert (account.strangers, [each.id for each in account.unknown]) == (1, ["gone"])
    assert account.times() == {2: 1}


def test_a_dead_letter_in_a_topic_is_no_arrival() -> None:
    account = tally("a")
    account.found(message("a", "0/8:0", letter=True))
    assert account.is_missing("a")
    assert account.is_letter("a")
    account.found(message("a", "0/8:0", replayed=True))
    assert account.missing == 0


def test_no_more_is_listed_than_was_asked_for() -> None:
    account = tally(listed=2)
    for number in range(5):
        account.found(message(str(number), "0/8:0"))
    assert (len(account.unknown), account.strangers) == (2, 5)


def test_only_a_later_message_of_the_same_key_makes_a_misplaced_one_wrong_for_its_key() -> None:
    messages = [
        message("a", "0/20:0", offset=0, key=b"one"),
        message("b", "0/10:0", offset=1, key=b"two"),
        message("c", "0/18:0", offset=2, key=b"one"),
    ]
    account = tally("a", "b", "c")
    for each in messages:
        account.found(each)
    assert [(each.found.id, each.key) for each in within_keys(account.out_of_order, messages)] == [
        ("b", False),
        ("c", True),
    ]


def test_an_event_takes_less_than_a_hundred_bytes() -> None:
    ids = [str(uuid4()) for _ in range(200_000)]
    account = tally()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for id_ in ids:
        account.expect(id_)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / len(ids) < 100
