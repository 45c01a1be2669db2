"""A router that knows how far the transaction at which a stream begins was published before."""

from collections.abc import Iterable
from typing import Protocol

from walrelay.lsn import LSN
from walrelay.model import AnyRecord, Message


class Routing(Protocol):
    """Records to messages."""

    def route(self, record: AnyRecord) -> Iterable[Message]:
        """The messages for `record`, in order; Unroutable where the rules yield none, Undecodable for what is none."""
        ...


class Resumed:
    """Of the transaction at `commit_lsn` the records before `ordinal` were published and yield nothing."""

    def __init__(self, routing: Routing, commit_lsn: LSN, ordinal: int) -> None:
        self._route, self._commit_lsn, self._ordinal = routing.route, commit_lsn, ordinal

    def route(self, record: AnyRecord) -> Iterable[Message]:
        if record.commit_lsn == self._commit_lsn and record.ordinal < self._ordinal:
            return ()
        return self._route(record)
