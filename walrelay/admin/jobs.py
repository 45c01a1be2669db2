"""Changes that take a while: each on a thread and a connection of its own, with its progress in walrelay.jobs."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, NamedTuple

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
_LEFT = "What is left stays as it is; ask for it again."


class Step(NamedTuple):
    """That `number` of things ended so. `note`: what is to be said of it; empty: nothing."""

    outcome: str
    number: int = 1
    note: str = ""


class JobProgress:
    """What a job tells while it is at work. `stop`: it is to end after the part it is at. `result`: what it found.
    `outcome`: all in a few words; empty: the counts. `hint`: what to do, where it did not come to its end.
    """

    def __init__(self, note: Callable[[Counter[str], list[str]], None]) -> None:
        self._note, self._noted = note, monotonic()
        self.counts, self.notes = Counter[str](), list[str]()
        self.stop, self.by = Event(), ""
        self.result: Any = None
        self.outcome, self.hint = "", _LEFT

    def took(self, step: Step) -> None:
        self.counts[step.outcome] += step.number
        if step.note and len(self.notes) < _NOTES:
            self.notes.append(step.note)
        if monotonic() - self._noted >= _OFTEN:
            self.note()

    def note(self) -> None:
        try:
            self._note(self.counts, self.notes)
        except WalrelayError:  # the server is away, and with it the lock: nobody would know that it is at work
            self.stop.set()
            raise
        self._noted = monotonic()

    def __str__(self) -> str:
        return self.outcome or ", ".join(f"{count} {name}" for name, count in self.counts.items()) or "nothing"


class JobWork(NamedTuple):
    """What a job does: `total` things. `do` does them in small durable parts, and returns whether all were done.
    `tells`: a result, or a total beyond four bytes, which a table of an earlier version cannot hold. `notes`: what is
    left out.
    """

    total: int
    do: Callable[[JobProgress], bool]
    tells: bool = False
    notes: tuple[str, ...] = ()


class StartedJob(NamedTuple):
    """`job`: None where there is nothing to do. `notes`: what is left out."""

    job: int | None
    total: int
    notes: tuple[str, ...] = ()


Prepare = Callable[[Catalog], JobWork]
"""Finds what is to be done, on the connection of the job, and changes nothing yet."""


def in_steps(total: int, steps: Iterator[Step]) -> JobWork:
    """Work that is done while its steps are iterated over."""

    def do(progress: JobProgress) -> bool:
        for step in steps:
            progress.took(step)
            if progress.stop.is_set() and progress.counts.total() < total:
                return False
        return True

    return JobWork(total, do)


class Jobs:
    """The jobs of this process. Closing it ends them after the part they are at; what is left stays as it is."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._at_work: dict[Thread, tuple[AdminRelay, int, JobProgress]] = {}
        self._leaving = False

    def start(self, relay: AdminRelay, asked: Asked, prepare: Prepare) -> StartedJob:
        """Returns once the job is noted and about to begin."""
        catalog = self._room_for(relay)
        try:
            journal = AdminJournal(catalog, relay.wiring.slot)
            work = prepare(catalog)
            if not work.total:
                catalog.close()
                return StartedJob(None, 0, work.notes)
            if work.tells:
                journal.refuse_old_table()
            job = journal.begin(asked, work.total)
        except BaseException:
            catalog.close()
            raise
        progress = JobProgress(lambda counts, notes: journal.progress(job, counts, notes))
        progress.notes += work.notes[:_NOTES]
        run = _Run(catalog, journal, job, asked, work, progress)
        thread = Thread(target=run.to_its_end, name=f"job {job}", daemon=True)
        with self._lock:
            if self._leaving:
                progress.stop.set()
            self._at_work = {each: told for each, told in self._at_work.items() if each.is_alive()}
            self._at_work[thread] = relay, job, progress
            thread.start()
        return StartedJob(job, work.total, work.notes)

    def cancel(self, relay: AdminRelay, job: int, by: str) -> bool:
        """The job is to end after the part it is at. False if it is not at work in this process."""
        with self._lock:
            for thread, (of, number, progress) in self._at_work.items():
                if (of.wiring.dsn, of.wiring.slot, number) == (relay.wiring.dsn, relay.wiring.slot, job):
                    progress.by = by
                    progress.stop.set()
                    return thread.is_alive()
        return False

    def leave(self) -> None:
        """Each job is to end after the part it is at."""
        with self._lock:
            self._leaving = True
            for _, _, progress in self._at_work.values():
                progress.stop.set()

    def close(self) -> None:
        self.leave()
        deadline = monotonic() + _LEAVING
        for thread in self._at_work:
            thread.join(max(0.0, deadline - monotonic()))

    def _room_for(self, relay: AdminRelay) -> Catalog:
        with self._lock:
            busy = sum(each.is_alive() for each in self._at_work)
        if busy >= _AT_ONCE:
            hint = "GET jobs says how far they are; ask again when one has ended."
            raise ApiProblem(429, f"{busy} jobs are at work already", hint, {"Retry-After": "10"})
        return Catalog(relay.wiring.dsn)


class _Run(NamedTuple):
    """A job at work."""

    catalog: Catalog
    journal: AdminJournal
    job: int
    asked: Asked
    work: JobWork
    progress: JobProgress

    def to_its_end(self) -> None:
        job, journal, progress = self.job, self.journal, self.progress
        with self.catalog:
            try:
                done = self.work.do(progress)
                self._tell()
                if done:
                    journal.end(job, self.asked, "done", str(progress))
                else:
                    by = f"cancelled by {progress.by}: " if progress.by else ""
                    journal.end(job, self.asked, "interrupted", f"{by}{progress}", hint=f"{by}{progress.hint}")
            except Exception as error:
                known = explained(error)
                with suppress(WalrelayError):  # the server is away: the lock goes with the connection
                    self._tell()
                    journal.end(job, self.asked, "failed", f"failed: {known}", str(known), known.hint)

    def _tell(self) -> None:
        self.progress.note()
        if self.progress.result is not None:
            self.journal.note_result(self.job, self.progress.result)
