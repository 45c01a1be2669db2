"""SQLAlchemy's ORM: aggregates record events, and each flush writes those of the objects that it writes.

    class Order(RecordsEvents, Base): ...

    Session = sessionmaker(engine)
    write_recorded(Session, Outbox())

    with Session.begin() as session:
        order = Order(...)
        order.record(OrderPlaced(...))
        session.add(order)

The invariant: an event is committed if and only if the change that it is about is. So it goes the way of the object's
attributes: it is forgotten when a rollback (to a savepoint too) takes them back, it stays with an object that was new
and may be added again, and it is cleared by the commit of the outermost transaction and by nothing else.
"""

from collections.abc import Iterable
from typing import Any, Self, cast

from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import inspect
from sqlalchemy.ext.asyncio import async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.orm.attributes import flag_dirty

from walrelay.outbox.emitting import Outbox
from walrelay.outbox.recording import Recorded, Recording
from walrelay.outbox.session_events import AfterFlush, keeper, named, writer


class RecordsEvents(Recording):
    """A mixin for mapped classes: `self.record(event)`. Change the object first, then record its event."""

    def record(self, event: object) -> None:
        """See Recording. RuntimeError for a detached object: `Session.merge` would leave its events behind."""
        state = inspect(self)
        if state.detached:
            raise RuntimeError(f"{named(self)} is detached: add it to a session before it records an event")
        recorded = Recorded(event, frozenset(state.committed_state))
        if state.deleted:  # its row is deleted: no flush visits it again
            keeper(state.session).took(self, recorded)
        self.recordings.waiting.append(recorded)
        if not state.deleted:
            flag_dirty(self)  # the session flushes it, and holds it until then, though no column changed


# SQLAlchemy passes None for an object that was garbage-collected; its events are gone as well.


@sqlalchemy_event.listens_for(RecordsEvents, "expire", propagate=True)
def _expired(aggregate: RecordsEvents | None, attributes: Iterable[str] | None) -> None:
    """Changes that were not flushed are forgotten, and so are their events."""
    if aggregate is None or not (waiting := aggregate.recordings.waiting):
        return
    if attributes is None:
        waiting.clear()
    elif not getattr(inspect(aggregate).session, "_flushing", False):  # a flush expires what the database computes
        _taken_back(aggregate, waiting, frozenset(attributes))


@sqlalchemy_event.listens_for(RecordsEvents, "refresh", propagate=True)
def _refreshed(aggregate: RecordsEvents | None, _: object, attributes: Iterable[str] | None) -> None:
    """The whole object was read again, over its changes (`populate_existing`). Single attributes are expired before."""
    if aggregate is not None and attributes is None:
        aggregate.recordings.waiting.clear()


def _taken_back(aggregate: RecordsEvents, waiting: list[Recorded], attributes: frozenset[str]) -> None:
    """Drops an event whose whole change is undone; an event of which only a part is undone is an error."""
    waiting[:] = [each for each in waiting if not each.changed or not each.changed <= attributes]
    if torn := [each for each in waiting if each.changed & attributes]:
        taken, kept = torn[0].changed & attributes, torn[0].changed - attributes
        raise RuntimeError(
            f"{', '.join(sorted(taken))} of {named(aggregate)} was expired, and its change with it; the change of"
            f" {', '.join(sorted(kept))} was not, and an event tells of both. Flush the session before, or expire the"
            " whole object"
        )


@sqlalchemy_event.listens_for(Session, "after_flush")
def _unheard(session: Session, flush_context: Any) -> None:
    """Raises if a session would commit objects without their events, because it has no `write_recorded`."""
    if writer(session) is not None:
        return
    for state in flush_context.states:
        aggregate = state.obj()
        if isinstance(aggregate, RecordsEvents) and aggregate.recordings.waiting:
            raise RuntimeError(
                f"{named(aggregate)} has recorded events, and its session writes none: call"
                " write_recorded(sessions, outbox), or use a UnitOfWork; write_recorded(sessions, None) leaves events"
                " out on purpose"
            )


def write_recorded(
    sessions: sessionmaker[Any] | async_sessionmaker[Any] | scoped_session[Any] | type[Session] | Session,
    outbox: Outbox | None,
) -> None:
    """From now on these sessions write what their objects recorded, within the flush that writes the objects.

    An `async_sessionmaker` gets a class of sessions of its own, so that no other's are changed. `outbox=None`: they
    forget it instead, on purpose (a test without an outbox); without either, a flush with events is an error.
    """
    target: Any = sessions
    if isinstance(sessions, async_sessionmaker):
        under = sessions.kw.get("sync_session_class") or sessions.class_.sync_session_class
        target = under if isinstance(under, sessionmaker) else type(under.__name__, (under,), {})
        sessions.configure(sync_session_class=target)

    sqlalchemy_event.listen(target, "after_flush", AfterFlush(outbox))
    sqlalchemy_event.listen(target, "after_flush_postexec", lambda session, _: keeper(session).flushed())
    sqlalchemy_event.listen(target, "before_commit", lambda session: keeper(session).committing())
    sqlalchemy_event.listen(target, "after_commit", lambda session: keeper(session).committed())
    sqlalchemy_event.listen(target, "after_rollback", lambda session: keeper(session).rolling_back())
    sqlalchemy_event.listen(target, "after_transaction_end", lambda session, ended: keeper(session).ended(ended))


class UnitOfWork:
    """One session and one transaction: `with UnitOfWork(sessions, outbox) as work:` (or `async with`).

    The end of the block commits, an exception rolls back. `work.session` is the session, `work.emit(event)` writes an
    event that no aggregate recorded. What aggregates recorded is written to the same outbox, whether or not
    `write_recorded` was called.
    """

    def __init__(self, sessions: sessionmaker[Any] | async_sessionmaker[Any], outbox: Outbox) -> None:
        self._sessions, self._outbox = sessions, outbox
        self._scope: Any = None
        self.session: Any = None

    def emit(self, event: object) -> Any:
        """See Outbox.emit; awaited in an `async with`."""
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
        if writer(session) is None:
            write_recorded(session, self._outbox)
        keeper(session).outbox = self._outbox
