"""What is said of a row: from the numbers and times that the table, the slot and the dead letters give."""

from typing import Any

import pytest

from walrelay.dead_letters.of_records import DeadLetterOfRecord
from walrelay.operations.find.judging import traced, with_copies, without_row
from walrelay.operations.find.progress import PublishedFrom, RelayProgress
from walrelay.operations.find.report import RowCopy
from walrelay.operations.find.rows import TableRow
from walrelay.operations.find.waiting import WaitingInSlot

SECOND = 1_000_000
PART = 7
KNOWN = {PART: PublishedFrom(100)}


def row(**changes: Any) -> TableRow:
    found = TableRow("a", "order", "1", "Placed", 50 * SECOND, None, 200, PART, False, ("t",), "")
    return found._replace(**changes)


def behind(**known: Any) -> RelayProgress:
    return RelayProgress(**{"xmin": 150, "behind": "2 MB behind", "parts": KNOWN, **known})


@pytest.mark.parametrize(
    ("progress", "changes", "state"),
    [
        (RelayProgress(everything=True, parts=KNOWN), {}, "published"),
        (RelayProgress(everything=True, parts=KNOWN), {"xid": 99}, "unknown"),  # from before the slot
        (RelayProgress(everything=True, parts={PART: PublishedFrom(why="altered")}), {}, "unknown"),
        (RelayProgress(everything=True, parts={}), {}, "unknown"),  # a partition that is new
        (RelayProgress(everything=True, parts={PART: PublishedFrom(100, "1970-01-01 00:00:51+00")}), {}, "unknown"),
        (RelayProgress(everything=True, parts={PART: PublishedFrom(100, "1970-01-01 00:00:50+00")}), {}, "published"),
        (RelayProgress(lost="the slot is gone"), {}, "unknown"),
        (RelayProgress(lost="the slot is gone"), {"marked": True}, "published"),
        (behind(), {"xid": 149}, "published"),
        (behind(), {}, "unknown"),
        (behind(waiting_since=50 * SECOND), {}, "waiting"),
        (behind(waiting_since=50 * SECOND + 1), {}, "unknown"),  # it was committed later than it was written
        (behind(still_since=50 * SECOND), {}, "waiting"),
        (behind(waiting_since=60 * SECOND), {"committed_at": 58 * SECOND}, "published"),
        (behind(waiting_since=60 * SECOND), {"committed_at": 60 * SECOND}, "waiting"),
        (behind(in_slot=WaitingInSlot(frozenset("a"))), {}, "waiting"),
        (behind(in_slot=WaitingInSlot(frozenset("b"))), {}, "unknown"),  # there may be others
        (behind(in_slot=WaitingInSlot(frozenset("b"), complete=True)), {}, "published"),
        (behind(), {"dropped_by": "a rule drops it"}, "dropped"),
    ],
)
def test_a_state_is_only_told_where_it_is_known(progress: RelayProgress, changes: dict[str, Any], state: str) -> None:
    found = traced(row(**changes), progress, ())
    assert (found.state, bool(found.why)) == (state, True)


def test_a_row_that_no_rule_routes_stops_the_relay() -> None:
    found = traced(row(topics=("",)), behind(still_since=0), ())
    assert (found.state, found.due, "no rule routes it" in found.why) == ("waiting", (), True)


def letter(status: str, number: int = 1, topic: str = "t") -> DeadLetterOfRecord:
    return DeadLetterOfRecord("a", "0/10:0", status, "too_large", topic, number, "order", "1", "Placed", 50 * SECOND)


@pytest.mark.parametrize(
    ("progress", "statuses", "state", "of_each"),
    [
        (behind(still_since=0), {"us": "replayed"}, "waiting", ["waiting", "published"]),
        (behind(), {"us": "replayed"}, "unknown", ["unknown", "published"]),
        (behind(still_since=0), {"us": "discarded"}, "dead_letter", ["waiting", "dead_letter"]),
        (RelayProgress(everything=True, parts=KNOWN), {"us": "replayed"}, "published", ["published", "published"]),
        (RelayProgress(everything=True, parts=KNOWN), {"eu": "waiting"}, "dead_letter", ["dead_letter", "published"]),
    ],
)
def test_each_message_of_a_row_has_its_own_state(
    progress: RelayProgress, statuses: dict[str, str], state: str, of_each: list[str]
) -> None:
    found = traced(row(topics=("eu", "us")), progress, [letter(each, topic=topic) for topic, each in statuses.items()])
    assert (found.state, [each.state for each in found.destinations]) == (state, of_each)


def test_a_letter_of_a_topic_that_is_gone_is_shown_beside_the_topics_of_today() -> None:
    progress = RelayProgress(everything=True, parts=KNOWN)
    found = traced(row(topics=("new",)), progress, [letter("waiting", topic="old")])
    assert [(each.topic, each.state) for each in found.destinations] == [("new", "unknown"), ("old", "dead_letter")]
    assert "new: the relay has confirmed it, but by earlier rules, which sent it to old" in found.why
    copy = RowCopy("kafka", "new", 0, 1, 50_000, "0/10:0", False)
    assert [each.state for each in with_copies(found, [copy], ["new"], "", []).destinations] == [
        "published",
        "dead_letter",
    ]


def test_a_copy_in_one_topic_says_nothing_of_the_other() -> None:
    copy = RowCopy("kafka", "a", 0, 1, 50_000, "0/10:0", False)
    waiting = traced(row(topics=("a", "b")), behind(still_since=0), ())
    assert with_copies(waiting, [copy], ["a"], "", ["b"]).state == "waiting"
    assert with_copies(waiting, [copy, copy], ["a", "b"], "", []).state == "published"
    confirmed = traced(row(topics=("a", "b")), RelayProgress(everything=True, parts=KNOWN), ())
    assert (
        "b: the relay has confirmed it, but b has no such message"
        in with_copies(confirmed, [copy], ["a"], "", ["b"]).why
    )


@pytest.mark.parametrize(
    ("statuses", "state", "shown"),
    [
        (["waiting"], "dead_letter", 1),
        (["blocked"], "dead_letter", 1),
        (["discarded"], "dead_letter", 1),
        (["replayed"], "published", 1),
        (["replayed", "waiting", "replayed"], "dead_letter", 2),
        (["discarded", "replayed"], "published", 2),
    ],
)
def test_a_dead_letter_counts_before_all_else(statuses: list[str], state: str, shown: int) -> None:
    letters = [letter(status, number) for number, status in enumerate(statuses, 1)]
    for found in (traced(row(), RelayProgress(everything=True, parts=KNOWN), letters), without_row("a", letters)):
        assert (found.state, found.type, found.due) == (state, "Placed", ("t",))
        assert found.dead_letter is not None
        assert found.dead_letter.letter == shown
        assert ("it has" in found.why) == (len(statuses) > 1)
