"""Changes that take a while: each on a thread and a connection of its own, with its progress in walrelay.jobs."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple

from walrelay.admin.journal import AdminJournal, Asked
from walrelay.admin.problems import ApiProblem
from walrelay.admin.relays import AdminRelay
from walrelay.errors import WalrelayError
from walrelay.postgres.catalog import Catalog
from walrelay.unforeseen import explained

_AT_ONCE = 4  # jobs of this process
_OFTEN = 0.5  # seconds between two notes of progress
_NOTES = 20  # that a job keeps
_LEAVING = 20.0  # seconds for jobs to end


class Step(NamedTuple):
    """That `number` of things ended so. `note`: what is to be said of it; empty: nothing."""

    outcome: str
    number: int = 1
    note: str = ""


class JobWork(NamedTuple):
    """What a job does: `total` things, and the steps that do them, in small durable parts."""

    total: int
    steps: Iterator[Step]


class StartedJob(NamedTuple):
    """`job`: None where there is nothing to do."""

    job: int | None
    total: int


Prepare = Callable[[Catalog], JobWork]
"""Finds what is to be done, on the connection of the job, and changes nothing yet."""


class Jobs:
    """The jobs of this process. Closing it ends them after the part they are at; what is left stays as it is."""

    def __init__(self) -> None:
        self._leaving, self._lock = Event(), Lock()
        self._threads: list[Thread] = []

    def start(self, relay: AdminRelay, asked: Asked, prepare: Prepare) -> StartedJob:
        """Returns once the job is noted and about to begin."""
        catalog = self._room_for(relay)
        try:
            journal = AdminJournal(catalog, relay.wiring.slot)
            work = prepare(catalog)
            if not work.total:
                catalog.close()
                return StartedJob(None, 0)
            job = journal.begin(asked, work.total)
        except BaseException:
            catalog.close()
            raise
        thread = Thread(target=self._run, args=(catalog, journal, job, asked, work), name=f"job {job}", daemon=True)
        with self._lock:
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            thread.start()
        return StartedJob(job, work.total)

    def leave(self) -> None:
        """Each job is to end after the part it is at."""
        self._leaving.set()

    def close(self) -> None:
        self.leave()
        deadline = monotonic() + _LEAVING
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _room_for(self, relay: AdminRelay) -> Catalog:
        with self._lock:
            busy = sum(each.is_alive() for each in self._threads)
        if busy >= _AT_ONCE:
            hint = "GET jobs says how far they are; ask again when one has ended."
            raise ApiProblem(429, f"{busy} jobs are at work already", hint, {"Retry-After": "10"})
        return Catalog(relay.wiring.dsn)

    def _run(self, catalog: Catalog, journal: AdminJournal, job: int, asked: Asked, work: JobWork) -> None:
        counts, notes = Counter[str](), list[str]()
        with catalog:
            try:
                done = self._done(journal, job, work, counts, notes)
                outcome = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
                journal.progress(job, counts, notes)
                journal.end(job, asked, "done" if done else "interrupted", outcome)
            except Exception as error:
                known = explained(error)
                with suppress(WalrelayError):  # the server is away: the lock goes with the connection
                    journal.progress(job, counts, notes)
                    journal.end(job, asked, "failed", f"failed: {known}", str(known), known.hint)

    def _done(self, journal: AdminJournal, job: int, work: JobWork, counts: Counter[str], notes: list[str]) -> bool:
        """Whether all was done."""
        told = monotonic()
        for step in work.steps:
            counts[step.outcome] += step.number
            if step.note and len(notes) < _NOTES:
                notes.append(step.note)
            if monotonic() - told >= _OFTEN:
                journal.progress(job, counts, notes)
                told = monotonic()
            if self._leaving.is_set() and counts.total() < work.total:
                return False
        return True
