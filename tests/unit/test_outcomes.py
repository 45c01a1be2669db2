"""The outcome of each message of a record, by its own topic and its own dead letter."""

from typing import Any

import pytest

from walrelay.dead_letters.identity import letters_of_messages
from walrelay.dead_letters.of_records import DeadLetterOfRecord
from walrelay.model import Message
from walrelay.outcomes import FoundMessages, of_topics, outcomes
from walrelay.publish import RecalledMessage


def found(*topics: str, earlier: tuple[str, ...] = ()) -> FoundMessages:
    """A message of the record in each of these topics, all different."""
    messages = [RecalledMessage(topic, "1", "0/10:0", number) for number, topic in enumerate(topics)]
    return FoundMessages(messages, earlier)


def letters(*each: tuple[str | None, str]) -> list[DeadLetterOfRecord]:
    return [
        DeadLetterOfRecord("1", "0/10:0", status, "too_large", topic, number)
        for number, (topic, status) in enumerate(each)
    ]


@pytest.mark.parametrize(
    ("due", "there", "set_aside", "expected"),
    [
        ("ab", found("a"), [], ["published", "due"]),
        ("aa", found("a"), [], ["due", "due"]),
        ("aa", found("a", "a"), [], ["published", "published"]),
        ("ab", found("a"), [("b", "discarded")], ["published", "discarded"]),
        ("ab", found(), [("b", "replayed")], ["due", "published"]),
        ("ab", found(), [(None, "skipped")], ["skipped", "skipped"]),
        ("ab", found(), [(None, "waiting"), ("b", "replayed")], ["waiting", "published"]),
        ("a", found(), [("a", "discarded"), ("a", "waiting")], ["waiting"]),
        ("a", found(), [("a", "discarded"), ("a", "replayed")], ["published"]),
        ("n", found("o"), [], ["due"]),
        ("n", found("o", earlier=("o",)), [], ["published"]),
        ("nm", found("o", earlier=("o",)), [], ["due", "due"]),
        ("n", found(), [("o", "discarded")], ["due"]),
        ("n", found(), [("o", "waiting")], ["due"]),
        ("n", found(), [("o", "replayed")], ["due"]),
        ("n", found(earlier=("o",)), [("o", "discarded")], ["discarded"]),
        ("n", found(earlier=("p",)), [("o", "discarded")], ["due"]),
        ("nm", found(earlier=("o",)), [("o", "discarded")], ["due", "due"]),
        ("nm", found("o", earlier=("o",)), [("o", "discarded")], ["discarded", "published"]),
        ("nm", found("o", earlier=("o",)), [("o", "replayed")], ["due", "due"]),
        ("nb", found("b"), [("o", "discarded")], ["due", "published"]),
        ("ab", found("a", "b"), [("o", "discarded")], ["published", "published"]),
    ],
)
def test_a_message_is_judged_by_its_own_topic_and_its_own_letter(
    due: str, there: FoundMessages, set_aside: list[Any], expected: list[str]
) -> None:
    assert [each.outcome for each in outcomes("1", of_topics([*due]), there, letters(*set_aside))] == expected


def test_of_a_topics_messages_the_refused_one_is_told_by_its_key() -> None:
    """The rules changed their order since, or one of them went."""
    of_b = DeadLetterOfRecord("1", "0/10:0", "discarded", "too_large", "t", key=b"b", number=1)
    of_a = of_b._replace(status="replayed", key=b"a", number=0)
    a, b = Message("t", b"a", None, [], 0), Message("t", b"b", None, [], 0)
    for messages, of_row, expected in (
        ([b, a], [of_b], ["discarded", "due"]),
        ([b], [of_a, of_b], ["discarded"]),
        ([a], [of_a, of_b], ["published"]),
    ):
        judged = outcomes("1", messages, found(), of_row)
        assert [each.outcome for each in judged] == expected
        assert [each.letter for each in judged] == letters_of_messages(of_row, messages), "as in the relay"


def test_a_repetition_in_a_topic_is_one_message() -> None:
    twice = FoundMessages([RecalledMessage("a", "1", "0/10:0", 7)] * 2)
    assert [each.outcome for each in outcomes("1", of_topics(["a", "a"]), twice, [])] == ["due", "due"]


def test_a_dead_letter_in_a_topic_accounts_for_the_topic_that_it_was_meant_for() -> None:
    there = FoundMessages([RecalledMessage("b", "1", "0/10:0", 0, letter=True)])
    assert [each.outcome for each in outcomes("1", of_topics(["a", "b"]), there, [])] == ["due", "in a topic"]
