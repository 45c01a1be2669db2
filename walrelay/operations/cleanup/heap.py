"""A table read once from its first page to its last, a range of pages in each transaction, without an index."""

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple

from walrelay.operations.cleanup.rhythm import Rhythm
from walrelay.operations.cleanup.session import Busy, Session
from walrelay.table.published import PartConditions
from walrelay.table.selection import verbatim

_ATTEMPTS = 5
_PAUSE = 0.2  # seconds after which a batch that gave way is tried again

Condition = tuple[str, list[Any]]
Wait = Callable[[float], object]


class Batch(NamedTuple):
    """The pages before `end` of `pages` were gone through; `counts`: of each condition, in this batch.

    `passed_over`: somebody held on to rows in it.
    """

    end: int
    pages: int
    counts: tuple[int, ...]
    passed_over: bool = False


class Heap:
    """One table, without those that inherit from it. `wait`: passes so many seconds, or fewer when it is time to go."""

    def __init__(self, session: Session, name: str, rhythm: Rhythm, wait: Wait) -> None:
        self._session, self._name, self._rhythm, self._wait = session, name, rhythm, wait
        self._quoted = verbatim(name)

    def delete(self, rows: PartConditions, first: int = 0) -> Iterator[Batch]:
        """Deletes what may go; counts that, and what is not known to be published."""
        yield from self._batches(first, lambda tids: self._deleted(tids, rows))

    def count(self, *conditions: Condition) -> Iterator[Batch]:
        """Counts the rows of each condition."""
        yield from self._batches(0, lambda tids: self._counts(tids, conditions))

    def _deleted(self, tids: str, rows: PartConditions) -> tuple[int, ...]:
        unknown = (0,) if rows.all_known else self._counts(tids, [rows.unknown()])
        condition, parameters = rows.going()
        statement = f"DELETE FROM ONLY {self._quoted} AS o WHERE {tids} AND {condition}"
        return self._session.changed(statement, *parameters), *unknown

    def _counts(self, tids: str, conditions: Sequence[Condition]) -> tuple[int, ...]:
        listed = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition, _ in conditions)
        parameters = [each for _, parameters in conditions for each in parameters]
        return self._session.counts(f"SELECT {listed} FROM ONLY {self._quoted} AS o WHERE {tids}", *parameters)

    def _batches(self, first: int, work: Callable[[str], tuple[int, ...]]) -> Iterator[Batch]:
        pages, begin, failures = self._pages(), first, 0
        while begin < pages:
            end, begun = min(pages, begin + self._rhythm.pages), monotonic()
            try:
                batch = Batch(end, pages, work(f"o.ctid >= '({begin},0)' AND o.ctid < '({end},0)'"))
                pause = self._rhythm.took(monotonic() - begun)
            except Busy:
                failures, pause = failures + 1, _PAUSE
                if failures < _ATTEMPTS or end - begin > 1:
                    self._rhythm.gave_way()
                    self._wait(pause)
                    continue
                batch = Batch(end, pages, (), passed_over=True)
            yield batch
            begin, failures = end, 0
            if begin < pages:
                self._wait(pause)

    def _pages(self) -> int:
        query = "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int8"
        return int(self._session.value(query, self._name))
