"""The leader marks published rows in columns of the user's, for dashboards and jobs that read them.

Nothing of walrelay reads the mark. Which rows are published is known from the table and the slot alone, by the rule of
the clean-up: so there is nothing to remember, nothing to lose in a crash, and a mark that could not be set is set by a
later pass. The passes run in a thread of the relay's process, on their own connection. They wait for no row's lock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic

from walrelay.errors import WalrelayError
from walrelay.observe import NotMarked, Observer
from walrelay.operations.cleanup.batches import Busy, Session
from walrelay.postgres.parts import NothingKnown, parts
from walrelay.table.published import CleanupParts, cleanup_horizon, slot_behind_error, slots_behind, written_time
from walrelay.table.selection import describe_table, id_text, verbatim
from walrelay.wire.commands import literal
from walrelay.wiring import Marks, Wiring

_PAUSE = 1.0  # seconds between two passes
_SHARE = 10  # the pause is at least so many times as long as the pass
_AFTER_AN_ERROR = 30.0
_PATIENCE = 60.0  # for slots to confirm
_LOOK = 0.1
_NUDGE = 1.0  # seconds after which an idle server is made to write some WAL
_BATCH = 500  # rows
_FAREWELL = 0.5  # seconds for the current batch when the relay stops

_INDEXES = "SET enable_indexscan = on; SET enable_bitmapscan = on; SET enable_seqscan = on"
_NOT_PUBLISHED = "('waiting', 'blocked', 'discarded', 'skipped')"

Wait = Callable[[float], bool]


class Marking:
    """One for a process."""

    def __init__(self, wiring: Wiring, observer: Observer) -> None:
        self._wiring, self._observer = wiring, observer
        self._told = ""

    @contextmanager
    def while_leading(self) -> Iterator[None]:
        """An error in the thread is reported once, and does not affect the relay."""
        marks = self._wiring.marks
        if marks is None:
            yield
            return
        stop = Event()
        thread = Thread(target=self._work, args=(marks, stop), name="marking", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_FAREWELL)

    def _work(self, marks: Marks, stop: Event) -> None:
        pause = _PAUSE
        while not stop.wait(pause):
            begun = monotonic()
            pause = _AFTER_AN_ERROR
            try:
                self._passes(marks, stop.wait)
                pause = max(_PAUSE, _SHARE * (monotonic() - begun))
            except WalrelayError as error:
                self._tell(f"{error} (hint: {error.hint})" if error.hint else str(error))
            except Exception as error:  # a bug here is no reason to stop publishing
                self._tell(f"{type(error).__name__}: {error}")

    def _passes(self, marks: Marks, wait: Wait) -> None:
        """As many as it can, on one connection."""
        with Session(self._wiring.dsn) as session:
            session.connection.execute(_INDEXES.encode())
            while True:
                work = _Work(wait)
                with suppress(Busy):
                    mark(session, self._wiring, marks, work.wait)
                self._told = ""
                if wait(max(_PAUSE, _SHARE * work.seconds)):
                    return

    def _tell(self, why: str) -> None:
        if why != self._told:
            self._observer.saw(NotMarked(why))
        self._told = why


class _Work:
    """How long a pass has worked: what it waits for costs the server nothing."""

    def __init__(self, wait: Wait) -> None:
        self._wait, self._begun = wait, monotonic()

    def wait(self, seconds: float) -> bool:
        begun = monotonic()
        over = self._wait(seconds)
        self._begun += monotonic() - begun
        return over

    @property
    def seconds(self) -> float:
        return monotonic() - self._begun


def mark(session: Session, wiring: Wiring, marks: Marks, wait: Wait) -> int:
    """One pass: marks every row that was published and confirmed when it began, in batches; returns how many. A row
    that is locked is left to a later pass, and so is the rest where `wait` says that it is time to stop. Busy if the
    table is locked, and cannot even be read.
    """
    unmarked = f"({verbatim(marks.where)})"
    (some,) = session.counts(f"SELECT EXISTS (SELECT FROM {verbatim(wiring.table)} AS o WHERE {unmarked})::int")
    if not some:
        return 0
    table = describe_table(session, wiring)
    written = written_time(table, wiring.outbox.columns.created_at)
    edge = cleanup_horizon(session, wiring.slot, wiring.table, wiring.publication)
    known = CleanupParts(session, edge, table, wiring.table, written, "infinity")
    begun = nudged = monotonic()
    while slots := slots_behind(session, edge):
        if monotonic() - begun > _PATIENCE:
            raise slot_behind_error(slots[0], edge, _PATIENCE)
        if monotonic() - nudged > _NUDGE:
            session.rows("SELECT pg_current_xact_id()")
            nudged = monotonic()
        if wait(_LOOK):
            return 0
    refused = (
        f"NOT EXISTS (SELECT FROM walrelay.dead_letters AS d WHERE d.slot_name = {verbatim(literal(wiring.slot))}"
        f" AND d.record_id = {id_text(table)} AND d.status IN {_NOT_PUBLISHED})"
    )
    marked = 0
    for part in parts(session, wiring.table):
        name = part.name if table.partitioned else wiring.table
        rows = known.rows(name)
        if isinstance(rows, NothingKnown):
            continue
        published, parameters = rows.published()
        chosen = f"SELECT o.ctid FROM ONLY {verbatim(name)} AS o WHERE {unmarked} AND {published} AND {refused}"
        statement = (
            f"UPDATE ONLY {verbatim(name)} SET {verbatim(marks.set)}"
            f" WHERE ctid = ANY (ARRAY({chosen} LIMIT {_BATCH} FOR UPDATE OF o SKIP LOCKED))"
        )
        count = _BATCH
        while count == _BATCH:
            begun = monotonic()
            try:
                count = session.changed(statement, *parameters)
            except Busy:
                break  # a row was changed meanwhile, or the table is locked
            marked += count
            if wait(monotonic() - begun):
                return marked
    return marked
