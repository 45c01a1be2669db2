"""What is asked about the activity of relays, and answered in the table walrelay.activity: all SQL on it.

Whoever wants to know sends a notification. The process that leads writes a row and sends another one. So nothing is
written while nobody asks, and readers need no more than SELECT.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from walrelay.control.relay import RelayControl
from walrelay.control.table import ACTIVITY
from walrelay.errors import Retryable, WalrelayError
from walrelay.postgres.catalog import Catalog

QUESTIONS, ANSWERS = "walrelay_activity", "walrelay_activity_written"  # channels

_APART = 0.5  # seconds between two answers of a relay: who asks meanwhile shares the next one
_AFTER_FAILURE = 10.0  # seconds
_LOCK = "200ms"  # for which a lock of the table may hold up the thread that listens for pauses
_IN_ONE = 100  # slots that one notification names


class Question(NamedTuple):
    """`slot` empty: about all relays. `after`: with the events that have later numbers; None: without events."""

    slot: str = ""
    after: int | None = None

    def __str__(self) -> str:
        return self.slot if self.after is None else f"{self.slot} {self.after}"

    @staticmethod
    def parse(text: str) -> "Question | None":
        """None for what is no question: anybody may send a notification."""
        slot, blank, after = text.partition(" ")
        if not blank:
            return Question(slot)
        return Question(slot, int(after)) if slot and after.isascii() and after.isdigit() and len(after) < 19 else None


class Answers:
    """The answers of a process, over one connection."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.slots: frozenset[str] = frozenset()  # of the relays that lead here
        self._asked: dict[str, int | None] = {}  # by slot, as in Question
        self._written: dict[str, float] = {}  # when, by slot
        self._not_before = 0.0

    def hear(self, text: str) -> bool:
        """Notes a question for a relay that leads here; returns whether it is one. Of many the most is answered."""
        slot, _, _ = text.partition(" ")
        if slot and slot not in self.slots:
            return False
        question = Question.parse(text)
        if question is None:
            return False
        for each in self.slots if not question.slot else (question.slot,):
            numbers = [number for number in (self._asked.get(each), question.after) if number is not None]
            self._asked[each] = min(numbers, default=None)
        return True

    def due(self, now: float) -> float | None:
        """In how many seconds the next answer is to be written; None: nobody asks."""
        if not self._asked:
            return None
        return max(
            0.0, self._not_before - now, min(self._written.get(each, 0.0) + _APART for each in self._asked) - now
        )

    def write(self, relays: Sequence[RelayControl], now: float) -> None:
        """All that is due. A table that cannot be written is told of, and costs the relays nothing."""
        if self._not_before > now:
            return
        due = {slot: after for slot, after in self._asked.items() if self._written.get(slot, 0.0) + _APART <= now}
        self._asked = {slot: after for slot, after in self._asked.items() if slot not in due}
        answering = [each for each in relays if each.leads and each.slot in due]
        if not answering:
            return
        self._written = {slot: at for slot, at in self._written.items() if slot in self.slots} | dict.fromkeys(due, now)
        try:
            write_answers(self._catalog, {each.slot: each.activity.answer(due[each.slot]) for each in answering})
        except Retryable as error:
            if self._catalog.connection.closed:
                raise
            self._fail(answering, now, str(error))
        except WalrelayError as error:
            self._fail(answering, now, f"{error} (hint: {error.hint})" if error.hint else str(error))

    def _fail(self, relays: Iterable[RelayControl], now: float, why: str) -> None:
        self._not_before, self._asked = now + _AFTER_FAILURE, {}
        for each in relays:
            each.cannot_answer(why)


def write_answers(catalog: Catalog, answers: Mapping[str, str]) -> None:
    """By slot, in one transaction each hundred, which notifies who waits for them."""
    slots = [*answers]
    for some in (slots[begin : begin + _IN_ONE] for begin in range(0, len(slots), _IN_ONE)):
        with catalog.connection.transaction():
            catalog.run(f"SET LOCAL lock_timeout = '{_LOCK}'")
            catalog.rows(
                f"WITH written AS (INSERT INTO {ACTIVITY} AS a (slot_name, written_at, activity)"
                " SELECT slot, clock_timestamp(), activity FROM unnest(%s::text[], %s::json[]) AS of (slot, activity)"
                " ON CONFLICT (slot_name) DO UPDATE SET (written_at, activity) = (excluded.written_at,"
                f" excluded.activity) RETURNING slot_name) SELECT pg_notify('{ANSWERS}', string_agg(slot_name, ' '))"
                " FROM written",
                some,
                [answers[slot] for slot in some],
            )
