"""The outcome of each message of a record, from the topics and the dead letters. Pure.

A record is published when each of its messages is: the message of one destination says nothing about another's. A dead
letter accounts for its own message, as `letters_of_messages` tells that; one of a record without a message accounts for
all of them. One of a destination that today's rules do not have settles nothing, as in the relay.
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
    """The messages that were read back, by topic and id. `earlier`: topics that an operator names: a message there, or
    a dead letter of that topic, stands for a message that today's rules send elsewhere.
    """

    def __init__(self, messages: Iterable[RecalledMessage] = (), earlier: Collection[str] = ()) -> None:
        self.earlier = tuple(dict.fromkeys(earlier))
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
    """Of the messages of one record, in their order. `letters`: those of the record."""
    due = [message.topic for message in messages]
    closed = [letter for letter in letters if letter.status not in OPEN]  # the last of several counts
    letters = [*(letter for letter in letters if letter.status in OPEN), *closed[::-1]]
    own = letters_of_messages(letters, messages)
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
    if missing and len(earlier := _by_earlier_rules(id_, due, found, letters)) >= len(missing):
        for place, each in zip(missing, earlier, strict=False):
            result[place] = each
    return result


def letters_of_other_topics(letters: Sequence[DeadLetterOfRecord], due: Collection[str]) -> list[DeadLetterOfRecord]:
    """Those of topics that today's rules do not have for the record."""
    addresses = {stored_text(topic) for topic in due}
    return [letter for letter in letters if letter.topic is not None and letter.topic not in addresses]


def _by_earlier_rules(
    id_: str, due: Collection[str], found: FoundMessages, letters: Sequence[DeadLetterOfRecord]
) -> list[MessageOutcome]:
    """Of the record's messages for topics that an operator named, to which today's rules do not send it."""
    outcomes = list[MessageOutcome]()
    for topic in found.earlier:
        if topic in due:
            continue
        own = {(letter.key, letter.number): letter for letter in letters[::-1] if letter.topic == stored_text(topic)}
        judged = [MessageOutcome(outcome_of(letter), letter) for letter in own.values()]
        if not judged and found.is_letter(topic, id_):
            judged.append(MessageOutcome("in a topic"))
        replayed = sum(each.outcome == "published" for each in judged)  # the topic may have these
        outcomes += [*judged, *[MessageOutcome("published")] * (found.count(topic, id_) - replayed)]
    return outcomes


def outcome_of(letter: DeadLetterOfRecord) -> Outcome:
    """Of the messages that a dead letter accounts for."""
    match letter.status:
        case "waiting" | "blocked" | "discarded" | "skipped":
            return letter.status
        case _:  # replayed
            return "published"
