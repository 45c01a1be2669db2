"""Django's models: what they record is written by `save()` and `delete()`, in one transaction with their rows.

    class Order(RecordsEvents, models.Model): ...

    with transaction.atomic():
        order.place()          # self.record(OrderPlaced(...))
        order.save()

An event is cleared when the outermost transaction is committed. After a rollback the object keeps it, as Django's
objects keep their attributes, and the next `save()` writes both again; `refresh_from_db()` takes both back.
`bulk_create` and `QuerySet.update` call no `save()`: `write_recorded(objects)` does it for them.
"""

import re
from collections.abc import Iterable
from typing import Any, ClassVar
from weakref import ref

from django.db import connections, router, transaction

from walrelay.outbox.emitting import Outbox
from walrelay.outbox.recording import Recorded, Recording, Recordings

_MADE_BY_DJANGO = re.compile(r"s\d+_x(\d+)")


class RecordsEvents(Recording):
    """A mixin for models, before models.Model in the list. `outbox` may be another one."""

    outbox: ClassVar[Outbox] = Outbox()

    def save(self, *args: Any, **options: Any) -> None:
        """Model.save, and the events."""
        using = options.get("using") or (args[2:3] or [None])[0] or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using, savepoint=False):  # an error spoils the block, as one of Model.save does
            super().save(*args, **options)  # type: ignore[misc]
            write_recorded([self], using=using)

    def delete(self, *args: Any, **options: Any) -> Any:
        """Model.delete, and the events."""
        using = options.get("using") or (args[:1] or [None])[0] or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using, savepoint=False):
            write_recorded([self], using=using)  # before: a deleted object has no key any more
            return super().delete(*args, **options)  # type: ignore[misc]

    def refresh_from_db(self, using: str | None = None, fields: Any = None, **options: Any) -> None:
        """Model.refresh_from_db; unwritten events are dropped with the changes that they were about."""
        super().refresh_from_db(using, fields, **options)  # type: ignore[misc]
        if fields is None:  # otherwise it may be Django, loading a deferred field
            _look_again(self.recordings, _open(connections[using or self._state.db]))  # type: ignore[attr-defined]
            self.recordings.waiting.clear()


def write_recorded(aggregates: Iterable[RecordsEvents], *, using: str = "default") -> None:
    """Writes the events of these objects that are not written in this transaction yet, in the order of recording.

    RuntimeError where autocommit is off (`set_autocommit(False)`): Django does not report commits there.
    """
    connection = connections[using]
    written = _open(connection)
    due: dict[Outbox, dict[Recorded, Recordings]] = {}  # no pair for each: the garbage collector looks at all of them
    for aggregate in aggregates:
        recordings = aggregate.recordings
        _look_again(recordings, written)
        if recordings.waiting:
            due.setdefault(aggregate.outbox, {}).update(dict.fromkeys(recordings.waiting, recordings))
    if not due:
        return
    if _by_hand(connection):
        raise RuntimeError(
            f"autocommit is off on {using!r}, and Django does not report commits there, so recorded events"
            " might be written twice or never: leave autocommit on and write `with transaction.atomic():`, or emit by"
            " hand: Outbox.emit(connection, event)"
        )
    for outbox, places in due.items():
        its = sorted(places, key=lambda each: each.number)
        if len(its) == 1:
            outbox.emit(connection, its[0].resolved())
        else:
            outbox.emit_many(connection, [each.resolved() for each in its])
        written = written or _opened(connection)
        written.add(places, connection.savepoint_state)


class _Written:
    """The events that were written in a transaction of Django: the first of its commit hooks clears them.

    Django has one list of hooks for each transaction and empties it after a rollback: if ours is not in it, all is
    undone. To a hook belong the savepoints that it is in, and a rollback to a savepoint asks each hook for it. Ours is
    asked like that (`in`), and answers for itself: savepoints are numbered, so that those with a number up to an
    event's were there when it was written, and a rollback to one undoes it. Savepoints of
    `transaction.savepoint()`, which Django does not count among a hook's own, are numbered like any other.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        # Weak references: an object that is gone has nothing to clear.
        self._log: list[tuple[int, list[ref[Recordings]]]] = []
        self.open = True

    def add(self, places: dict[Recorded, Recordings], savepoints: int) -> None:
        """Adds events and their owners. `savepoints`: how many the connection had made until now."""
        for recorded, recordings in places.items():
            recorded.scope, recorded.savepoints = self, savepoints
            recordings.waiting.remove(recorded)
            recordings.written.append(recorded)
        self._log.append((savepoints, [ref(each) for each in dict.fromkeys(places.values())]))

    def stands(self) -> bool:
        """Whether its transaction is still open."""
        return self.open and any(hook is self for _, hook, *_ in self._connection.run_on_commit)

    def __contains__(self, savepoint: object) -> bool:
        """Always False, so Django keeps the hook; events written after that savepoint wait to be written again."""
        found = _MADE_BY_DJANGO.fullmatch(str(savepoint))
        number = int(found[1]) if found else 0
        undone: list[ref[Recordings]] = []
        while self._log and self._log[-1][0] >= number:
            undone += self._log.pop()[1]
        for recordings in _living(undone):
            for recorded in recordings.written:
                if recorded.scope is self and recorded.savepoints >= number:
                    recorded.scope = None
        return False

    def __call__(self) -> None:
        """The commit. Tests may call it twice."""
        self.open = False
        for recordings in _living(place for _, places in self._log for place in places):
            recordings.written = [each for each in recordings.written if each.scope is not self]
        self._log.clear()


def _living(places: Iterable[ref[Recordings]]) -> Iterable[Recordings]:
    """The owners that still exist, each once."""
    return dict.fromkeys(recordings for place in places if (recordings := place()) is not None)


def _look_again(recordings: Recordings, written: _Written | None) -> None:
    """Events that a rollback undid wait again; a commit would have cleared them. What is written in an open transaction
    of another database is written: the object has one event, in whichever database it was saved first.
    """
    found = recordings.written
    if not found or (written is not None and found[0].scope is written is found[-1].scope):
        return
    standing = {scope for each in found if isinstance(scope := each.scope, _Written) and scope.stands()}
    recordings.waiting[:0] = [each for each in found if each.scope not in standing]
    recordings.written = [each for each in found if each.scope in standing]


def _open(connection: Any) -> _Written | None:
    """The record of the open transaction, if events were written in it."""
    return next((hook for _, hook, *_ in connection.run_on_commit if isinstance(hook, _Written) and hook.open), None)


def _opened(connection: Any) -> _Written:
    """Before the application's own hooks: one that fails would leave this one out, one that saves the object would
    write its events again. In a TestCase there is no commit, and who captures callbacks counts on their places.
    """
    written = _Written(connection)
    connection.on_commit(written)
    _, *rest = connection.run_on_commit.pop()
    captured = any(block._from_testcase for block in connection.atomic_blocks)
    connection.run_on_commit.insert(len(connection.run_on_commit) if captured else 0, (written, *rest))
    return written


def _by_hand(connection: Any) -> bool:
    """Whether the outermost block commits nothing, because the application does so itself."""
    if connection.in_atomic_block:
        return not connection.commit_on_exit
    return not connection.get_autocommit()
