"""What becomes of the events of a SQLAlchemy session's objects, transaction by transaction."""

from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Connection, inspect
from sqlalchemy.orm import InstanceState, Session, SessionTransaction
from sqlalchemy.orm.attributes import flag_dirty

from walrelay.outbox.emitting import Outbox
from walrelay.outbox.recording import Recorded, Recording

_KEEPER = "walrelay.outbox"  # in Session.info


class AfterFlush:
    """The after_flush listener; a class of its own, so that `writer` can find it among a session's listeners."""

    def __init__(self, outbox: Outbox | None) -> None:
        self.outbox = outbox

    def __call__(self, session: Session, flush_context: Any) -> None:
        keeper(session).write(flush_context)


def writer(session: Session) -> AfterFlush | None:
    return next((each for each in session.dispatch.after_flush if isinstance(each, AfterFlush)), None)


class _Scope:
    """A transaction or a savepoint, and weak references to the objects whose events were written in it.

    A savepoint that is released becomes its parent's, for all that was written in it at once.
    """

    __slots__ = ("_into", "states")

    def __init__(self) -> None:
        self.states: WeakSet[InstanceState[Any]] = WeakSet()
        self._into: _Scope | None = None

    def release(self, parent: "_Scope") -> None:
        parent.states |= self.states
        self._into = parent

    def now(self) -> "_Scope":
        scope = self
        while scope._into is not None:
            scope = scope._into
        if scope is not self:
            self._into = scope  # the next look is short
        return scope


class Keeper:
    """Which of a session's events are written, and in which transaction or savepoint."""

    def __init__(self, session: Session) -> None:
        self.outbox: Outbox | None = None  # a unit of work's own
        self._session = session
        self._scopes: dict[SessionTransaction, _Scope] = {}
        self._flushed: list[Recording] = []
        self._rolled_back: list[SessionTransaction] = []
        # Events of objects whose row was deleted: they wait for the next flush or commit. And where the row was.
        self._late: dict[SessionTransaction, list[tuple[Recording, Recorded]]] = {}
        self._deleted_on: WeakKeyDictionary[InstanceState[Any], Connection] = WeakKeyDictionary()
        self._committing: SessionTransaction | None = None

    def write(self, flush_context: Any) -> None:
        """The events of the flushed objects that are not written yet, in the order in which they were recorded."""
        due: list[tuple[Recording, Recorded, Connection]] = []
        self._flushed = []
        for state, (is_delete, listed_only) in flush_context.states.items():
            aggregate = state.obj()
            if listed_only or not isinstance(aggregate, Recording):
                continue
            self._flushed.append(aggregate)
            if is_delete or aggregate.recordings.waiting:
                connection = self._connection_of(state, flush_context.transaction)
                due += [(aggregate, each, connection) for each in aggregate.recordings.waiting]
                if is_delete:
                    self._deleted_on[state] = connection
        self._emit(due)

    def took(self, aggregate: Recording, recorded: Recorded) -> None:
        """Takes an event of an object whose row was deleted by a flush."""
        if writer(self._session) is None:
            raise RuntimeError(
                f"{named(aggregate)} was deleted, but its session does not write events: call write_recorded"
            )
        if (current := self._current) is None or current is self._committing:
            raise RuntimeError(
                f"{named(aggregate)} was deleted and is being committed: too late for an event of it. Record it before"
                " the session's commit begins"
            )
        self._late.setdefault(current, []).append((aggregate, recorded))

    def flushed(self) -> None:
        """Events that later listeners recorded wait for the next flush: this one has marked the objects as clean."""
        for aggregate in self._flushed:
            if aggregate.recordings.waiting and aggregate in self._session:
                flag_dirty(aggregate)
        self._emit(
            [
                (aggregate, each, self._deleted_on[inspect(aggregate)])
                for aggregate in self._flushed
                if inspect(aggregate) in self._deleted_on and inspect(aggregate).deleted
                for each in aggregate.recordings.waiting
            ]
        )
        self._flushed = []

    def committing(self) -> None:
        """The last chance for events of deleted objects: there may be nothing to flush."""
        self._emit([])
        self._committing = self._current

    def committed(self) -> None:
        """A savepoint's events are now its parent's. For the outermost transaction see `ended`."""
        self._committing = None
        current = self._current
        if current is not None and current.parent is not None and (scope := self._scopes.pop(current, None)):
            scope.release(self._scope(_boundary(current.parent)))

    def rolling_back(self) -> None:
        """Called before the objects are restored; `ended` is called after."""
        self._committing = None
        if (current := self._current) is not None:
            self._rolled_back.append(current)

    def ended(self, transaction: SessionTransaction) -> None:
        """After a rollback: where the object's attributes were taken back, its events are; where it is new again, they
        wait with it. After a commit, and when a session is closed without one: what was written is done with.
        """
        for boundary in self._rolled_back:
            self._end(boundary, wait_again=True)
        self._rolled_back = []
        self._end(transaction, wait_again=False)
        if transaction.parent is None:
            self._deleted_on.clear()

    def _end(self, transaction: SessionTransaction, *, wait_again: bool) -> None:
        for aggregate, each in self._late.pop(transaction, ()):
            if each in aggregate.recordings.waiting:
                aggregate.recordings.waiting.remove(each)
        if (scope := self._scopes.pop(transaction, None)) is None:
            return
        for state in scope.states:
            if not isinstance(owner := state.obj(), Recording):  # collected meanwhile
                continue
            found = owner.recordings
            over = [each for each in found.written if cast(_Scope, each.scope).now() is scope]
            found.written = [each for each in found.written if cast(_Scope, each.scope).now() is not scope]
            if wait_again and state.transient:
                for each in over:
                    each.scope = None
                found.waiting[:0] = over

    def _emit(self, due: list[tuple[Recording, Recorded, Connection]]) -> None:
        """These, and those of objects that were deleted before."""
        due = sorted([*due, *self._due_late()], key=lambda each: each[1].number)
        if not due:
            return
        listener = writer(self._session)
        outbox = self.outbox or (listener.outbox if listener else None)
        for connection in dict.fromkeys(connection for _, _, connection in due):
            events = [each.resolved() for _, each, where in due if where is connection] if outbox else []
            if outbox and len(events) == 1:
                outbox.emit(connection, events[0])
            elif outbox:
                outbox.emit_many(connection, events)
        current = self._current
        assert current is not None
        scope = self._scope(current)
        self._late.pop(current, None)
        owners = {id(aggregate): aggregate for aggregate, *_ in due}
        for aggregate, each, _ in due:
            each.scope = scope
            aggregate.recordings.written.append(each)
        for owner in owners.values():
            owner.recordings.waiting[:] = [each for each in owner.recordings.waiting if each.scope is None]
            scope.states.add(inspect(owner))

    def _due_late(self) -> list[tuple[Recording, Recorded, Connection]]:
        """The events of the current transaction or savepoint: a rollback to it must not take earlier ones."""
        current = self._current
        late = self._late.get(current, []) if current is not None else []
        return [(aggregate, each, self._connection_of(inspect(aggregate), None)) for aggregate, each in late]

    def _connection_of(self, state: InstanceState[Any], transaction: SessionTransaction | None) -> Connection:
        """The connection of the object's row: a session may have several, and chooses one as a flush does."""
        if transaction is None and (known := self._deleted_on.get(state)) is not None:
            return known
        mapper = state.mapper.base_mapper
        if self._session.connection_callable is not None:
            return self._session.connection_callable(mapper, state.obj())
        if transaction is not None:
            return transaction.connection(mapper)
        return self._session.connection(bind_arguments={"mapper": mapper})

    def _scope(self, transaction: SessionTransaction) -> _Scope:
        return self._scopes.setdefault(transaction, _Scope())

    @property
    def _current(self) -> SessionTransaction | None:
        """The innermost savepoint, or the transaction."""
        return self._session.get_nested_transaction() or self._session.get_transaction()


def keeper(session: Session | None) -> Keeper:
    assert session is not None
    if (found := session.info.get(_KEEPER)) is None:
        found = session.info[_KEEPER] = Keeper(session)
    return cast(Keeper, found)


def _boundary(transaction: SessionTransaction) -> SessionTransaction:
    """The savepoint or transaction in the database: a flush is a transaction of SQLAlchemy's only."""
    while not transaction.nested and transaction.parent is not None:
        transaction = transaction.parent
    return transaction


def named(aggregate: object) -> str:
    """By its key alone: other attributes may not be possible to load."""
    identity = inspect(aggregate).identity
    return " ".join([type(aggregate).__name__, *(str(part) for part in identity or ["(new)"])])
