"""SQLAlchemy's ORM: aggregates record events, and each flush writes those of the objects that it writes.

    class Order(RecordsEvents, Base): ...

    Session = sessionmaker(engine)
    write_recorded(Session, Outbox())

    with Session.begin() as session:
        order = Order(...)
        order.record(OrderPlaced(...))
        session.add(order)

The invariant: an event is committed if and only if what it tells of its object is. So it goes the way of the object's
attributes: it is forgotten when a rollback (to a savepoint too) takes them back, it stays with an object that was new
and may be added again, and it is cleared by the commit of the outermost transaction and by nothing else.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Self, cast

from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import inspect
from sqlalchemy.ext.asyncio import async_sessionmaker
from sqlalchemy.orm import Session, SessionTransaction, scoped_session, sessionmaker
from sqlalchemy.orm.attributes import flag_dirty

from walrelay.outbox.emitting import Outbox
from walrelay.outbox.recording import Recorded, Recording

_KEEPER = "walrelay.outbox"  # in Session.info


class RecordsEvents(Recording):
    """A mixin for mapped classes: `self.record(event)`."""

    def record(self, event: object) -> None:
        """As in Recording. RuntimeError for a detached object: `Session.merge` would leave its events behind."""
        if inspect(self).detached:
            raise RuntimeError(f"{self!r} is detached: add it to a session before it records an event")
        super().record(event)
        flag_dirty(self)  # the session flushes it, and holds it until then, though no column changed


@sqlalchemy_event.listens_for(RecordsEvents, "expire", propagate=True)
def _expired(aggregate: RecordsEvents, attributes: Iterable[str] | None) -> None:
    """What was changed and not flushed is forgotten, and so is what tells of it."""
    if attributes is None:
        aggregate.recordings[:] = [each for each in aggregate.recordings if each.transaction is not None]


def write_recorded(
    sessions: sessionmaker[Any] | async_sessionmaker[Any] | scoped_session[Any] | type[Session] | Session,
    outbox: Outbox,
) -> None:
    """From now on these sessions write what their objects recorded, within the flush that writes the objects.

    An `async_sessionmaker` gets a class of sessions of its own, so that no other's are changed.
    """
    target: Any = sessions
    if isinstance(sessions, async_sessionmaker):
        under = sessions.kw.get("sync_session_class") or sessions.class_.sync_session_class
        target = under if isinstance(under, sessionmaker) else type(under.__name__, (under,), {})
        sessions.configure(sync_session_class=target)

    sqlalchemy_event.listen(target, "after_flush", _AfterFlush(outbox))
    sqlalchemy_event.listen(target, "after_flush_postexec", lambda session, _: _keeper(session).flushed())
    sqlalchemy_event.listen(target, "after_commit", lambda session: _keeper(session).committed())
    sqlalchemy_event.listen(target, "after_rollback", lambda session: _keeper(session).rolling_back())
    sqlalchemy_event.listen(target, "after_transaction_end", lambda session, ended: _keeper(session).ended(ended))


class _AfterFlush:
    """A listener that is known again: see UnitOfWork."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def __call__(self, session: Session, _: object) -> None:
        _keeper(session).write(self._outbox, session.new.union(session.dirty).union(session.deleted))


class UnitOfWork:
    """One session and one transaction: `with UnitOfWork(sessions, outbox) as work:` (or `async with`).

    The end of the block commits, an exception rolls back. `work.session` is the session, `work.emit(event)` writes an
    event that no aggregate recorded. What aggregates recorded is written whether or not `write_recorded` was called.
    """

    def __init__(self, sessions: sessionmaker[Any] | async_sessionmaker[Any], outbox: Outbox) -> None:
        self._sessions, self._outbox = sessions, outbox
        self._scope: Any = None
        self.session: Any = None

    def emit(self, event: object) -> Any:
        """As Outbox.emit; awaited in an `async with`."""
        return self._outbox.emit(self.session, event)

    def __enter__(self) -> Self:
        self._scope = cast(sessionmaker[Any], self._sessions).begin()
        self.session = self._scope.__enter__()
        self._listen(self.session)
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)

    async def __aenter__(self) -> Self:
        self._scope = cast(async_sessionmaker[Any], self._sessions).begin()
        self.session = await self._scope.__aenter__()
        self._listen(self.session.sync_session)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._scope.__aexit__(*error)

    def _listen(self, session: Session) -> None:
        if not any(isinstance(each, _AfterFlush) for each in session.dispatch.after_flush):
            write_recorded(session, self._outbox)


class _Keeper:
    """What became of a session's events. It holds their objects until the end: a session forgets clean ones."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._held: dict[int, RecordsEvents] = {}
        self._flushed: list[RecordsEvents] = []
        self._going: list[tuple[RecordsEvents, Recorded]] = []

    def write(self, outbox: Outbox, flushed: Iterable[object]) -> None:
        """The events of the flushed objects that are not written yet, in the order in which they were recorded."""
        self._flushed = [each for each in flushed if isinstance(each, RecordsEvents)]
        due = [
            (each, aggregate)
            for aggregate in self._flushed
            for each in aggregate.recordings
            if each.transaction is None
        ]
        for each, aggregate in sorted(due, key=lambda pair: pair[0].number):
            # The connection of the aggregate's own row: a session may have several.
            connection = self._session.connection(bind_arguments={"mapper": inspect(aggregate).mapper})
            outbox.emit(connection, each.resolved())
            each.transaction = self._current
            self._held[id(aggregate)] = aggregate

    def flushed(self) -> None:
        """What listeners recorded behind ours waits for the next flush: this one has marked the objects as clean."""
        for aggregate in self._flushed:
            if any(each.transaction is None for each in aggregate.recordings) and aggregate in self._session:
                flag_dirty(aggregate)
        self._flushed = []

    def committed(self) -> None:
        """A savepoint's events are now its parent's. Those of the outermost transaction are done: see `ended`."""
        current = self._current
        if current is not None and current.parent is not None:
            for aggregate in self._held.values():
                for each in aggregate.recordings:
                    if each.transaction is current:
                        each.transaction = current.parent

    def rolling_back(self) -> None:
        """Notes what the rollback is about to take back: what was written inside, and what was not written at all."""
        current = self._current
        here = {id(each): each for each in self._session if isinstance(each, RecordsEvents)}
        self._going = [
            (aggregate, each)
            for aggregate in {**here, **self._held}.values()
            for each in aggregate.recordings
            if each.transaction is None or current in _with_parents(each.transaction)
        ]

    def ended(self, transaction: SessionTransaction) -> None:
        """After a rollback: where the object's attributes were taken back, its events are; where it is new again, they
        wait with it. After a commit, and when a session is closed without one: what was written is done with.
        """
        for aggregate, each in self._going:
            if inspect(aggregate).transient:
                each.transaction = None
            elif each in aggregate.recordings:  # not expired already
                aggregate.recordings.remove(each)
        self._going = []
        for aggregate in self._held.values():
            aggregate.recordings[:] = [each for each in aggregate.recordings if each.transaction is not transaction]
        if transaction.parent is None:
            self._held.clear()

    @property
    def _current(self) -> SessionTransaction | None:
        """The innermost savepoint, or the transaction."""
        return self._session.get_nested_transaction() or self._session.get_transaction()


def _keeper(session: Session) -> _Keeper:
    if (keeper := session.info.get(_KEEPER)) is None:
        keeper = session.info[_KEEPER] = _Keeper(session)
    return cast(_Keeper, keeper)


def _with_parents(transaction: object) -> Iterator[object]:
    while isinstance(transaction, SessionTransaction):
        yield transaction
        transaction = transaction.parent
