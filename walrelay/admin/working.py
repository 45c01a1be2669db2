"""Routes that tell of jobs, and the log of all changes."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from walrelay.admin.callers import Administrator, Operator, Reader, Relay
from walrelay.admin.changes import NothingSaid, jobs_of, logged_change
from walrelay.admin.journal import AdminJournal, JobState, StoredJob
from walrelay.admin.problems import ApiProblem
from walrelay.errors import Fatal

router = APIRouter(tags=["jobs"])

Before = Annotated[int | None, Query(ge=1, lt=2**63, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=500)]


class ShownJob(BaseModel):
    """What was asked for, and how far it got."""

    id: int
    action: str
    caller: str
    state: JobState = Field(description="interrupted: its process ended; what is left stays as it is, ask again.")
    total: int
    counts: dict[str, int] = Field(description="How many ended how.")
    notes: list[str] | None = Field(description="Of a few single ones; null below the scope operate.")
    error: str
    hint: str
    begun_at: datetime
    changed_at: datetime
    result: Any = Field(description="What it found; null in a list, and below the scope operate.")


class CancelledJob(BaseModel):
    """What the log has of a job that was cancelled."""

    job: int


class JobPage(BaseModel):
    """The latest first."""

    jobs: list[ShownJob]
    next: int | None = Field(description="`before` for the next page; null: this is the last.")


class ShownEntry(BaseModel):
    """A change that was asked for by way of the API. `outcome`: null where it was about to begin."""

    id: int
    at: datetime
    caller: str
    way: str
    address: str
    action: str
    request: dict[str, Any]
    job: int | None
    outcome: str | None


class AuditPage(BaseModel):
    """The latest first."""

    entries: list[ShownEntry]
    next: int | None = Field(description="`before` for the next page; null: this is the last.")


@router.get("/relays/{relay}/jobs", summary="List jobs")
def listing(relay: Relay, caller: Reader, limit: Limit = 50, before: Before = None) -> JobPage:
    """Those that were asked for by way of the API, the latest first."""
    with relay.catalog() as catalog:
        found = AdminJournal(catalog, relay.wiring.slot).jobs(limit, before)
    shown = [shown_job(each, operates=caller.may("operate")) for each in found]
    return JobPage(jobs=shown, next=found[-1].id if len(found) == limit else None)


@router.get("/relays/{relay}/jobs/{job:int}", summary="Show how far a job is")
def one(relay: Relay, caller: Reader, job: Annotated[int, Path(ge=1, lt=2**63)]) -> ShownJob:
    """Its state, and how many ended how."""
    with relay.catalog() as catalog:
        found = AdminJournal(catalog, relay.wiring.slot).job(job)
    if found is None:
        raise ApiProblem(404, f"there is no job {job}", "GET jobs lists them.")
    return shown_job(found, operates=caller.may("operate"))


@router.post("/relays/{relay}/jobs/{job:int}/cancel", status_code=202, summary="Cancel a job")
def cancel(
    relay: Relay, caller: Operator, request: Request, job: Annotated[int, Path(ge=1, lt=2**63)], body: NothingSaid
) -> ShownJob:
    """It ends after the part it is at, and is `interrupted` then. Only by the instance of the API that began it."""
    del body
    found = one(relay, caller, job)
    if found.state != "running":
        raise ApiProblem(409, f"job {job} is not at work: it is {found.state}")
    with logged_change(request, relay, caller, "jobs.cancel", CancelledJob(job=job)):
        if not jobs_of(request).cancel(relay, job, caller.name):
            raise Fatal(
                f"job {job} is at work in another instance of the API, or has just ended",
                hint="Ask the instance that began it, or end its process: a job leaves nothing half done.",
            )
    return found


@router.get("/relays/{relay}/audit-log", summary="List who changed what")
def log(relay: Relay, _: Administrator, limit: Limit = 50, before: Before = None) -> AuditPage:
    """Every change that was asked for by way of the API, before it was done, and its outcome; the latest first."""
    with relay.catalog() as catalog:
        found = AdminJournal(catalog, relay.wiring.slot).entries(limit, before)
    entries = [ShownEntry.model_validate(each._asdict()) for each in found]
    return AuditPage(entries=entries, next=found[-1].id if len(found) == limit else None)


def shown_job(job: StoredJob, *, operates: bool) -> ShownJob:
    """What may be of an event only where the caller `operates`."""
    members = job._asdict()
    if not operates:
        members |= {"notes": None, "result": None, "error": "it failed: see the hint" if job.error else ""}
    return ShownJob.model_validate(members)
