"""The outcome of each message of a record, from the topics and the dead letters. Pure.

A record is published when each of its messages is: the message of one destination says nothing about another's. A dead
letter that is not replayed accounts for its own message; one of a record without a message accounts for all of them.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from walrelay.dead_letters.identity import letters_of_messages, stored_text
from walrelay.dead_letters.of_records import DeadLetterOfRecord
from walrelay.model import Message
from walrelay.publish import RecalledMessage

Outcome = Literal["published", "waiting", "blocked", "discarded", "skipped", "in a topic", "due"]
"""`in a topic`: it is a dead letter there, and in no table. `due`: neither the topics nor the dead letters have it."""

DUE: Outcome = "due"
OPEN = ("waiting", "blocked")


class FoundMessages:
    """The messages that were read back, by topic and id. `earlier`: topics that an operator names: a message there
    stands for one that today's rules send elsewhere.
    """

    def __init__(self, messages: Iterable[RecalledMessage] = (), earlier: Collection[str] = ()) -> None:
        self._earlier = frozenset(earlier)
        self._contents: dict[str, dict[str, int | tuple[int, ...]]] = {}
        self._letters: dict[str, set[str]] = {}  # ids, by the topic that they were refused for; "": the whole record
        for topic, id_, _, content, letter in messages:
            if letter:
                self._letters.setdefault(topic, set()).add(id_)
                continue
            of_topic = self._contents.setdefault(topic, {})
            known = of_topic.setdefault(id_, content)
            if isinstance(known, int):
                of_topic[id_] = content if known == content else (known, content)
            elif content not in known:
                of_topic[id_] = (*known, content)

    @property
    def ids(self) -> set[str]:
        """Of the records that have a message in any topic, or a dead letter there."""
        return {id_ for each in (*self._contents.values(), *self._letters.values()) for id_ in each}

    def count(self, topic: str, id_: str) -> int:
        """How many different messages of the record that topic has."""
        found = self._contents.get(topic, {}).get(id_)
        return 0 if found is None else 1 if isinstance(found, int) else len(found)

    def is_letter(self, topic: str, id_: str) -> bool:
        """Whether a topic for dead letters has the message that was refused for that topic."""
        return any(id_ in self._letters.get(each, ()) for each in (topic, ""))

    def elsewhere(self, id_: str, due: Collection[str]) -> list[str]:
        """The topics that have a message of the record, and are not among those that are due."""
        return [topic for topic, ids in self._contents.items() if topic not in due and id_ in ids]

    def standing_in(self, id_: str, due: Collection[str]) -> int:
        """How many messages of the record are in topics that the operator named beside those that are due."""
        return sum(self.count(topic, id_) for topic in self._earlier if topic not in due)


class MessageOutcome(NamedTuple):
    """Of one message. `letter`: the dead letter that says it."""

    outcome: Outcome
    letter: DeadLetterOfRecord | None = None


def of_topics(topics: Sequence[str]) -> list[Message]:
    """The messages of a record of which no more is known than the topics."""
    return [Message(topic, None, None, [], 0) for topic in topics]


def outcomes(
    id_: str, messages: Sequence[Message], found: FoundMessages, letters: Sequence[DeadLetterOfRecord]
) -> list[MessageOutcome]:
    """Of the messages of one record, in their order. `letters`: those of the record.

    A dead letter whose topic today's rules do not have stands for a message of which nothing else is known: earlier
    rules sent that to another topic. What was given up is rather left out, and counted, than published.
    """
    due = [message.topic for message in messages]
    closed = [letter for letter in letters if letter.status not in OPEN]  # the last of several counts
    own = letters_of_messages([*(letter for letter in letters if letter.status in OPEN), *closed[::-1]], messages)
    result = [MessageOutcome(DUE) if letter is None else MessageOutcome(outcome_of(letter), letter) for letter in own]
    for topic in dict.fromkeys(due):
        rest = [
            place for place, each in enumerate(due) if each == topic and result[place].outcome in (DUE, "published")
        ]
        if len(rest) <= found.count(topic, id_):
            for place in rest:
                result[place] = result[place]._replace(outcome="published")
        unknown = [place for place in rest if result[place].outcome == DUE]
        if unknown and found.is_letter(topic, id_):
            result[unknown[0]] = MessageOutcome("in a topic")
    missing = [place for place, each in enumerate(result) if each.outcome == DUE]
    addresses = {stored_text(topic) for topic in due}
    earlier = [letter for letter in letters if letter.topic is not None and letter.topic not in addresses]
    for place, letter in zip(missing, earlier, strict=False):
        result[place] = MessageOutcome(outcome_of(letter), letter)
    missing = missing[len(earlier) :]
    if missing and found.standing_in(id_, due) >= len(missing):
        for place in missing:
            result[place] = MessageOutcome("published")
    return result


def outcome_of(letter: DeadLetterOfRecord) -> Outcome:
    """Of the messages that a dead letter accounts for."""
    match letter.status:
        case "waiting" | "blocked" | "discarded" | "skipped":
            return letter.status
        case _:  # replayed
            return "published"
