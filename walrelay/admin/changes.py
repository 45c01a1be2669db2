"""What every route that changes something has in common: a log of it, and a job where it may take a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from walrelay.admin.access import Caller
from walrelay.admin.jobs import Jobs, Prepare
from walrelay.admin.journal import AdminJournal, Asked
from walrelay.admin.relays import AdminRelay
from walrelay.postgres.catalog import Catalog

Stored = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
"""Text that PostgreSQL can store."""


class NothingSaid(BaseModel):
    """There is nothing to be said."""

    model_config = ConfigDict(extra="forbid")


class ChangeRequested(BaseModel):
    """`dry_run`: say how many it would be, and do nothing."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = False


class StartedChange(BaseModel):
    """`job`: to be asked for its progress; null where nothing was done: a dry run, or none matched."""

    job: int | None
    matched: int = Field(description="How much there is to do: dead letters, rows, bytes or pages; the job's total.")
    notes: list[str] = Field(default_factory=list, description="What is left out.")


def started_change(
    request: Request, relay: AdminRelay, caller: Caller, action: str, body: BaseModel, prepare: Prepare
) -> StartedChange:
    """Begins a job, unless it is to be tried only. `action`: its name in the log, such as `dead_letters.replay`."""
    if isinstance(body, ChangeRequested) and body.dry_run:
        with relay.catalog() as catalog:
            work = prepare(catalog)
            return StartedChange(job=None, matched=work.total, notes=[*work.notes])
    started = jobs_of(request).start(relay, _asked(request, caller, action, body), prepare)
    return StartedChange(job=started.job, matched=started.total, notes=[*started.notes])


def jobs_of(request: Request) -> Jobs:
    """Those of this process."""
    jobs: Jobs = request.app.state.jobs
    return jobs


@contextmanager
def logged_change(
    request: Request, relay: AdminRelay, caller: Caller, action: str, body: BaseModel
) -> Iterator[Catalog]:
    """A change that is done at once, inside, by that catalog: in the log before, and with its outcome after."""
    with (
        relay.catalog() as catalog,
        AdminJournal(catalog, relay.wiring.slot).change(_asked(request, caller, action, body)),
    ):
        yield catalog


def _asked(request: Request, caller: Caller, action: str, body: BaseModel) -> Asked:
    address = request.client.host if request.client else ""
    return Asked(caller, address, action, body.model_dump(mode="json", exclude_defaults=True))
