"""Routing for a run that begins within a transaction, or that ends before a record that was refused earlier."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

from walrelay.errors import Refused, StopAhead
from walrelay.lsn import LSN
from walrelay.model import AnyRecord, Message


class Routing(Protocol):
    """Records to messages."""

    def route(self, record: AnyRecord) -> Iterable[Message]:
        """The messages for `record`, in order; Unroutable where the rules yield none, Undecodable for what is none."""
        ...


class Ahead:
    """Carries from one run of a process to the next that it has to end ahead of a refused record."""

    def __init__(self) -> None:
        self._refused: Refused | None = None

    def run(self, run: Callable[[], None]) -> None:
        """Runs `run` and remembers the refused record of a StopAhead."""
        try:
            run()
        except StopAhead as why:
            self._refused = why.refused
            raise

    def routing(self, routing: Routing) -> Routing:
        """`routing` for a run, up to the message that was refused."""
        refused = self._refused
        return routing if refused is None or refused.place is None else _UpTo(routing, refused, refused.place)


class _UpTo:
    def __init__(self, routing: Routing, refused: Refused, place: tuple[LSN, int]) -> None:
        self._route, self._refused, self._place = routing.route, refused, place

    def route(self, record: AnyRecord) -> Iterable[Message]:
        if (record.commit_lsn, record.ordinal) >= self._place:
            raise self._refused
        return self._route(record)


class ResumedRouting:
    """Yields nothing for the records before `ordinal` of the transaction at `commit_lsn`, and not the first `messages`
    of the record itself: they were published.
    """

    def __init__(self, routing: Routing, commit_lsn: LSN, ordinal: int, messages: int = 0) -> None:
        self._route, self._commit_lsn, self._ordinal, self._messages = routing.route, commit_lsn, ordinal, messages

    def route(self, record: AnyRecord) -> Iterable[Message]:
        if record.commit_lsn == self._commit_lsn and record.ordinal <= self._ordinal:
            return () if record.ordinal < self._ordinal else islice(self._route(record), self._messages, None)
        return self._route(record)
