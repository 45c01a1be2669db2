"""The outcome of each message of a record, from the topics and the dead letters. Pure.

A record is published when each of its messages is: the message of one destination says nothing about another's. A dead
letter that is not replayed accounts for its own message; one of a record without a message accounts for all of them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from walrelay.dead_letters.store import DeadLetterOfRecord
from walrelay.publish import RecalledMessage

Outcome = Literal["published", "waiting", "blocked", "discarded", "skipped", "in a topic", "due"]
"""`in a topic`: it is a dead letter there, and in no table. `due`: neither the topics nor the dead letters have it."""

DUE: Outcome = "due"


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


def outcomes(
    id_: str, due: Sequence[str], found: FoundMessages, letters: Sequence[DeadLetterOfRecord]
) -> list[Outcome]:
    """Of the messages of one record, in the order of their topics in `due`. `letters`: those of the record."""
    result: list[Outcome] = [DUE] * len(due)
    for whole in letters:
        if whole.topic is None:
            result = [outcome_of(whole)] * len(due)
    if DUE not in result:
        return result
    for topic, several in Counter(due).items():
        places = [place for place, each in enumerate(due) if each == topic]
        of_topic = [outcome_of(each) for each in letters if each.topic == topic]
        given_up = [each for each in of_topic if each != "published"]
        for place, outcome in zip(places, given_up, strict=False):
            result[place] = outcome
        rest = places[len(given_up) :]
        if rest and not of_topic and found.is_letter(topic, id_):
            result[rest.pop()] = "in a topic"
        known = several if found.count(topic, id_) >= len(rest) else len(of_topic) - len(given_up)
        for place in rest[:known]:
            result[place] = "published"
    missing = [place for place, outcome in enumerate(result) if outcome == DUE]
    if missing and found.standing_in(id_, due) >= len(missing):
        for place in missing:
            result[place] = "published"
    return result


def outcome_of(letter: DeadLetterOfRecord) -> Outcome:
    """Of the messages that a dead letter accounts for."""
    match letter.status:
        case "waiting" | "blocked" | "discarded" | "skipped":
            return letter.status
        case _:  # replayed
            return "published"
