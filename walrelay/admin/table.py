"""Routes for the outbox as a table: its rows published again, compared with the topics, cleaned up; as jobs."""

import json
from threading import Event
from time import sleep
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from walrelay.admin.callers import Administrator, Operator, Relay
from walrelay.admin.changes import ChangeRequested, StartedChange, Stored, started_change
from walrelay.admin.jobs import JobProgress, JobWork, Step
from walrelay.admin.problems import ApiProblem
from walrelay.admin.relays import AdminRelay
from walrelay.observe import Backfilled, Happening, Noticed, Retrying, Stalled
from walrelay.operations import audit as auditing
from walrelay.operations import cleanup as cleaning_up
from walrelay.operations import doctor
from walrelay.operations import replay as replaying
from walrelay.operations.cleanup import CleanupRequest
from walrelay.operations.replay import ReplayPlan, ReplayRequest, position_range
from walrelay.postgres.catalog import Catalog

router = APIRouter(tags=["table"])

Short = Annotated[Stored, Field(min_length=1, max_length=1_000)]
Some = Annotated[list[Short], Field(max_length=1_000)]
Seconds = Annotated[float, Field(ge=0.1, le=86_400)]


def _range(text: str) -> str:
    position_range(text)
    return text


class RowSelection(BaseModel):
    """Which rows; all conditions together. `everything: true` where there is no condition."""

    model_config = ConfigDict(extra="forbid")

    since: AwareDatetime | None = Field(None, description="Committed at or after this time.")
    until: AwareDatetime | None = Field(None, description="Committed before this time.")
    aggregates: Some = Field(default_factory=list, description="As in `order` or `order:42`.")
    types: Some = Field(default_factory=list)
    ids: Annotated[list[Short], Field(max_length=10_000)] = Field(default_factory=list)
    positions: Annotated[Short, AfterValidator(_range)] | None = Field(
        None, description="Of messages, as in `16/B374D848:0..16/B374E0A0`: the topics are read to find them."
    )
    tenants: Some = Field(default_factory=list)
    everything: bool = False

    @model_validator(mode="after")
    def _is_meant(self) -> "RowSelection":
        if self.everything == any(value for name, value in self if name != "everything"):
            raise ValueError("say which rows by a condition, or `everything: true` without one")
        return self


class RowReplayRequested(ChangeRequested):
    """Which rows, and how. The same request goes on with a replay that was interrupted, unless it says `restart`."""

    select: RowSelection
    topic: Short | None = Field(None, description="Instead of those of the routing rules.")
    rate: Annotated[float, Field(gt=0, le=1_000_000)] | None = Field(None, description="Events a second.")
    restart: bool = False


class AuditRequested(BaseModel):
    """The period; the last hour, if nothing is said. `listed`: how many findings of each kind."""

    model_config = ConfigDict(extra="forbid")

    since: AwareDatetime | None = None
    until: AwareDatetime | None = Field(None, description="null: up to what the relay has confirmed.")
    topics: Some = Field(default_factory=list, description="Besides those of the routing rules.")
    tenants: Some = Field(default_factory=list)
    listed: Annotated[int, Field(ge=0, le=1_000)] = 10


class CleanupRequested(BaseModel):
    """How old a row has to be; `retention` of the settings, if nothing is said. `dry_run`: count, in a job too."""

    model_config = ConfigDict(extra="forbid")

    older_than_seconds: Annotated[float, Field(ge=0, le=1e10)] | None = None
    dry_run: bool = False
    pace: Annotated[float, Field(ge=0.01, le=1)] = Field(0.1, description="The share of the time that it works.")
    timeout_seconds: Seconds = Field(30.0, description="How long it waits until the slots have confirmed the rows.")


@router.post("/relays/{relay}/replay", status_code=202, summary="Publish rows of the table again")
def replay(relay: Relay, caller: Operator, request: Request, body: RowReplayRequested) -> StartedChange:
    """They keep their ids, and get a header `replayed`. Rows that may not be confirmed, and dead letters, are left out.
    `walrelay replay` says more.
    """

    def prepare(catalog: Catalog) -> JobWork:
        plan = _plan(relay, body)
        notes = (*plan.left_out, *plan.unknown, *doctor.no_events(catalog, relay.wiring))
        return JobWork(
            max(plan.rows + plan.dropped, plan.resumed),
            lambda progress: _replayed(relay, plan, body.rate, progress),
            notes=notes,
        )

    return started_change(request, relay, caller, "replay", body, prepare)


@router.post("/relays/{relay}/audit", status_code=202, summary="Compare the table with the topics")
def audit(relay: Relay, caller: Operator, request: Request, body: AuditRequested) -> StartedChange:
    """Whether every row of the period is in the topics, in order. The job's result is what `walrelay audit --json`
    prints.
    """
    period = auditing.Period(body.since, body.until, body.topics, body.listed, body.tenants)

    def prepare(catalog: Catalog) -> JobWork:
        relay.wiring.sink.reader("`walrelay audit`")  # Fatal where topics cannot be read

        def do(progress: JobProgress) -> bool:
            try:
                report = auditing.audit(relay.wiring, period, progress.stop.wait, progress.stop.is_set)
            except auditing.AuditStopped:
                return False
            progress.took(Step("audited"))
            progress.result, progress.outcome = json.loads(report.as_json()), report.verdict
            progress.notes += [report.verdict]
            return True

        return JobWork(1, do, tells=True, notes=tuple(doctor.no_events(catalog, relay.wiring)))

    return started_change(request, relay, caller, "audit", body, prepare)


@router.post("/relays/{relay}/cleanup", status_code=202, summary="Delete old rows that were published")
def cleanup(relay: Relay, caller: Administrator, request: Request, body: CleanupRequested) -> StartedChange:
    """Only what is confirmed; in small batches, which the job counts in pages. `walrelay cleanup` says more."""
    age = cleaning_up.age_to_clean(relay.wiring, body.older_than_seconds)
    if age is None:
        hint = "Give `older_than_seconds`, or set `retention` in the settings."
        raise ApiProblem(422, "nobody says how old a row has to be", hint)
    asked = CleanupRequest(age, body.dry_run, body.pace, body.timeout_seconds)

    def prepare(catalog: Catalog) -> JobWork:
        pages = cleaning_up.pages_to_clean(catalog, relay.wiring)
        return JobWork(pages, lambda progress: _cleaned(relay, asked, pages, progress), tells=True)

    return started_change(request, relay, caller, "cleanup", body, prepare)


def _plan(relay: AdminRelay, body: RowReplayRequested) -> ReplayPlan:
    rows = body.select
    first, last = (None if moment is None else moment.isoformat() for moment in (rows.since, rows.until))
    asked = ReplayRequest(
        first,
        last,
        tuple(rows.aggregates),
        tuple(rows.types),
        tuple(rows.ids),
        rows.positions,
        rows.everything,
        body.topic,
        tuple(rows.tenants),
    )
    return replaying.plan_replay(relay.wiring, asked, sleep, since=first, until=last, restart=body.restart)


def _replayed(relay: AdminRelay, plan: ReplayPlan, rate: float | None, progress: JobProgress) -> bool:
    progress.hint = f"The same request goes on, and so does `walrelay replay --name {plan.name}`."
    return replaying.run_replay(progress.stop, relay.wiring, plan, rate, _Told(progress))


class _Told:
    """Observes a replay."""

    def __init__(self, progress: JobProgress) -> None:
        self._progress = progress

    def saw(self, happening: Happening) -> None:
        match happening:
            case Backfilled(rows):
                self._progress.took(Step("published", rows))
            case Stalled(seconds, _, why, _):
                self._note(f"the broker acknowledged nothing for {seconds:.0f} s: {why or 'it does not say why'}")
            case Noticed(text):
                self._note(text)
            case Retrying(cause, _, _) if not happening.again:
                self._note(cause)

    def _note(self, text: str) -> None:
        self._progress.took(Step("published", 0, text))


def _cleaned(relay: AdminRelay, asked: CleanupRequest, pages: int, progress: JobProgress) -> bool:
    stop: Event = progress.stop
    with cleaning_up.cleaning(relay.wiring, asked, stop.wait) as (steps, tally):
        table, before, left = "", 0, pages
        for step in steps:
            if not step.waits:
                before = before if step.what == table else 0
                more = min(left, int(step.done) - before)
                progress.took(Step("pages", more))
                table, before, left = step.what, int(step.done), left - more
            if stop.is_set():
                break
    progress.notes += [each for each in (*tally.notes, tally.hint(relay.wiring.slot)) if each]
    progress.result = vars(tally)
    would = " would be" if asked.dry_run else ""
    progress.outcome = f"{tally.rows} rows{would} deleted"
    return tally.complete
