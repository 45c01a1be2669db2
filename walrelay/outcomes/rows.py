"""The rows of a selection of which nothing is left to publish, and what becomes of the others' messages."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from walrelay.dead_letters.identity import letters_of_messages, stored_text
from walrelay.dead_letters.of_records import DeadLetterOfRecord, dead_letters_of, edited_record
from walrelay.dead_letters.store import TABLE as DEAD_LETTERS
from walrelay.dead_letters.store import present
from walrelay.model import AnyRecord, Message, OutboxRecord
from walrelay.outcomes.blocking import BlockedKeys
from walrelay.outcomes.messages import (
    DUE,
    FoundMessages,
    Outcome,
    letters_of_other_topics,
    of_topics,
    outcome_of,
    outcomes,
)
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.snapshot import View
from walrelay.route import Routing
from walrelay.table.rows import OutboxRows
from walrelay.table.selection import RowCondition, Selection, TableDescription, all_of, id_text
from walrelay.table.topics import TopicOf
from walrelay.wiring import Wiring

_AT_ONCE = 1000  # rows
_LEFT: dict[bool, tuple[Outcome, ...]] = {False: (DUE,), True: (DUE, "published")}
"""Which messages are to be published, by whether those that are published are to be published again."""

Believed = Callable[[DeadLetterOfRecord], bool]
"""Whether a dead letter is of the row that has its id now: in another history the server may give the id again."""


def _all(letter: DeadLetterOfRecord) -> bool:
    return True


class Known(NamedTuple):
    """What was read back from the topics, and which dead letters count."""

    found: FoundMessages
    believed: Believed = _all


NOTHING_KNOWN = Known(FoundMessages())


class SettledRows(NamedTuple):
    """`ids`: of the rows without anything left to publish. `partly`: how many others have some of their messages
    already; `aside`: those messages, by topic and the row's type. `letters`: messages that are dead letters, by status.
    `elsewhere`: of how many of the rows that are left each topic, to which today's rules do not send them, has a
    message or a dead letter.
    """

    ids: list[str]
    partly: int
    letters: Counter[str]
    elsewhere: Counter[str]
    aside: Counter[tuple[str, str]]


def settled_rows(
    wiring: Wiring,
    catalog: Catalog,
    view: View,
    table: TableDescription,
    selection: Selection,
    known: Known = NOTHING_KNOWN,
    *,
    again: bool = False,
) -> SettledRows:
    """Looks at those rows only that the topics or the dead letters know. `again`: what is published is left, too."""
    topic_of = TopicOf(wiring, table, roles=("id", "type"))
    settled, partly, left = SettledRows([], 0, Counter(), Counter(), Counter()), 0, _LEFT[again]
    found = known.found
    if (condition := _known(wiring, catalog, table, found)) is None:
        return settled
    rows = OutboxRows(view, table, selection._replace(also=all_of(selection.also, condition)))
    records = (topic_of.record(row.values) for row in rows.unordered(topic_of.columns))
    while some := list(islice(records, _AT_ONCE)):
        letters = LettersOfRows(wiring, catalog, known)
        letters.look_up([record.id for record in some])
        for record in some:
            due = topic_of.all(record)
            own = letters.of(record.id)
            became = [each.outcome for each in outcomes(record.id, of_topics(due), found, own)]
            settled.letters.update(each for each in became if each not in _LEFT[True])
            rest = [each for each in became if each in left]
            if due and not rest and not _by_their_keys(due, own, left):
                settled.ids.append(record.id)
            elif due:
                partly += len(rest) < len(due)
                others = (letter.topic or "" for letter in letters_of_other_topics(own, due))
                settled.elsewhere.update({*found.elsewhere(record.id, due), *others})
                gone = (topic for topic, outcome in zip(due, became, strict=True) if outcome not in left)
                settled.aside.update((topic, record.type or "") for topic in gone)
    return settled._replace(partly=partly)


def _by_their_keys(due: Sequence[str], letters: Sequence[DeadLetterOfRecord], left: Sequence[Outcome]) -> bool:
    """Whether only the keys of the messages tell which of a topic's dead letters are theirs, as earlier rules sent more
    messages there. The row has to be read then.
    """
    for topic in {*due}:
        own = [outcome_of(letter) in left for letter in letters if letter.topic == stored_text(topic)]
        if len(own) > due.count(topic) and any(own):
            return True
    return False


def _known(wiring: Wiring, catalog: Catalog, table: TableDescription, found: FoundMessages) -> RowCondition | None:
    """The rows with an id that a topic or a dead letter has; None: there is no such id."""
    conditions, parameters = list[str](), list[Any]()
    if ids := [*found.ids]:
        conditions.append(f"{id_text(table)} = ANY (%s::text[])")
        parameters.append(ids)
    if present(catalog):
        conditions.append(f"{id_text(table)} IN (SELECT record_id FROM {DEAD_LETTERS} WHERE slot_name = %s)")
        parameters.append(wiring.slot)
    return RowCondition(" OR ".join(conditions), parameters) if conditions else None


class LettersOfRows:
    """The dead letters of the rows that are looked at together."""

    def __init__(self, wiring: Wiring, catalog: Catalog, known: Known = NOTHING_KNOWN) -> None:
        self._slot, self._catalog, self._believed = wiring.slot, catalog, known.believed
        self._letters: dict[str, list[DeadLetterOfRecord]] = {}

    def look_up(self, ids: Sequence[str]) -> None:
        """Replaces those that were looked up before."""
        found = dead_letters_of(self._catalog, self._slot, [stored_text(each) for each in ids])
        self._letters = {id_: [each for each in some if self._believed(each)] for id_, some in found.items()}

    def of(self, id_: str) -> Sequence[DeadLetterOfRecord]:
        """Of one of them."""
        return self._letters.get(stored_text(id_), ())


class LeftToPublish:
    """Implements `Routing` for rows of the table, without the messages that are dead letters or, unless they are to
    come `again`, published.
    """

    def __init__(
        self,
        wiring: Wiring,
        catalog: Catalog,
        routing: Routing,
        known: Known = NOTHING_KNOWN,
        blocked: BlockedKeys | None = None,
        *,
        again: bool = False,
    ) -> None:
        """`blocked`: holds back what is behind an open dead letter of its key."""
        self._route, self._found, self._left, self._blocked = routing.route, known.found, _LEFT[again], blocked
        self._letters, self._catalog = LettersOfRows(wiring, catalog, known), catalog
        self.withheld = 0
        """How many records had messages, and none that was left."""

    def next(self, records: Sequence[OutboxRecord]) -> Sequence[OutboxRecord]:
        """The records that come next, once their dead letters were looked up: as they are now."""
        self._letters.look_up([record.id for record in records])
        return records

    def has_letters(self, id_: str) -> bool:
        """Whether one of the records that come next has dead letters."""
        return bool(self._letters.of(id_))

    def route(self, record: AnyRecord) -> Sequence[Message]:
        if not isinstance(record, OutboxRecord):
            return [*self._route(record)]
        if self._blocked is not None:
            self._blocked.passes(record)
        letters = self._letters.of(record.id)
        if any(each.topic is None and outcome_of(each) not in self._left for each in letters):
            self.withheld += 1
            return ()  # of the record as a whole, which today's rules may not even route
        messages = [*self._route(record)]
        became = outcomes(record.id, messages, self._found, letters)
        left = list[Message]()
        for number, (message, each) in enumerate(zip(messages, became, strict=True)):
            if each.letter is not None and each.letter.edited and each.outcome in self._left:
                left += self._as_edited(record, messages, each.letter)
            elif each.outcome in self._left and not (self._blocked and self._blocked.holds(record, number, message)):
                left.append(message)
        self.withheld += bool(messages and not left)
        return left

    def _as_edited(
        self, record: OutboxRecord, messages: Sequence[Message], letter: DeadLetterOfRecord
    ) -> Sequence[Message]:
        """What was published in place of one of the record's messages; an edit may have led it elsewhere."""
        edited = edited_record(self._catalog, letter.letter)
        if edited is None:
            return ()
        here = edited._replace(commit_lsn=record.commit_lsn, ordinal=record.ordinal, committed_at=record.committed_at)
        routed = [*self._route(here)]
        own = [each for each, of in zip(routed, letters_of_messages([letter], routed), strict=True) if of is not None]
        return own or [each for each in routed if each.topic not in {message.topic for message in messages}]


def topics_of_letters(catalog: Catalog, slot: str) -> list[str]:
    """Where messages went that became dead letters: by the rules of then."""
    if not present(catalog):
        return []
    query = f"SELECT DISTINCT topic FROM {DEAD_LETTERS} WHERE slot_name = %s AND topic IS NOT NULL"
    return [topic for (topic,) in catalog.rows(query, slot)]
