"""Django's models: what they record is written by `save()` and `delete()`, in one transaction with their rows.

    class Order(RecordsEvents, models.Model): ...

    with transaction.atomic():
        order.place()          # self.record(OrderPlaced(...))
        order.save()

An event is cleared when the outermost transaction is committed. After a rollback the object keeps it, as Django's
objects keep their attributes, and the next `save()` writes both again; `refresh_from_db()` takes both back.
`bulk_create` and `QuerySet.update` call no `save()`: `write_recorded(objects)` does it for them.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from django.db import connections, router, transaction

from walrelay.outbox.emitting import Outbox
from walrelay.outbox.recording import Recorded, Recording


class RecordsEvents(Recording):
    """A mixin for models, before models.Model in the list. `outbox` may be another one."""

    outbox: ClassVar[Outbox] = Outbox()

    def save(self, *args: Any, **options: Any) -> None:
        """Model.save, and the events."""
        using = options.get("using") or (args[2:3] or [None])[0] or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using):
            super().save(*args, **options)  # type: ignore[misc]
            write_recorded([self], using=using)

    def delete(self, *args: Any, **options: Any) -> Any:
        """Model.delete, and the events."""
        using = options.get("using") or (args[:1] or [None])[0] or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using):
            write_recorded([self], using=using)  # before: a deleted object has no key any more
            return super().delete(*args, **options)  # type: ignore[misc]

    def refresh_from_db(self, using: str | None = None, fields: Any = None, **options: Any) -> None:
        """Model.refresh_from_db; what was recorded and is not written goes with the attributes that it tells of."""
        super().refresh_from_db(using, fields, **options)  # type: ignore[misc]
        if fields is None:  # otherwise it may be Django, loading a deferred field
            alive = _alive(connections[using or self._state.db])  # type: ignore[attr-defined]
            self.recordings[:] = [each for each in self.recordings if id(each.transaction) in alive]


def write_recorded(aggregates: Iterable[RecordsEvents], *, using: str = "default") -> None:
    """Writes what these objects recorded and is not written in this transaction yet, in the order of recording."""
    connection = connections[using]
    alive = _alive(connection)
    due = [
        (each, aggregate)
        for aggregate in aggregates
        for each in aggregate.recordings
        if id(each.transaction) not in alive
    ]
    for each, aggregate in sorted(due, key=lambda pair: pair[0].number):
        aggregate.outbox.emit(connection, each.resolved())
        each.transaction = _Done(aggregate, each)
        _first_on_commit(connection, each.transaction, using)


def _alive(connection: Any) -> set[int]:
    """What is still to be called when the connection's transaction is committed. A rollback, to a savepoint too, takes
    out what it undid.
    """
    return {id(done) for _, done, *_ in connection.run_on_commit}


def _first_on_commit(connection: Any, done: "_Done", using: str) -> None:
    """Before the application's own: one that fails would leave this one out, one that saves the object would write its
    events again. In a TestCase there is no commit, and who captures callbacks counts on their places.
    """
    transaction.on_commit(done, using=using)
    if not any(block._from_testcase for block in connection.atomic_blocks):
        connection.run_on_commit.insert(0, connection.run_on_commit.pop())


class _Done:
    """Clears an event when it is committed; that it is still to be called says that its transaction still is one."""

    def __init__(self, aggregate: RecordsEvents, recorded: Recorded) -> None:
        self._aggregate, self._recorded = aggregate, recorded

    def __call__(self) -> None:
        if self._recorded in self._aggregate.recordings:  # tests may call a captured one twice
            self._aggregate.recordings.remove(self._recorded)
