"""Routes that pause a relay, resume it, and say what a pause costs."""

from threading import Event
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from walrelay.admin.access import Caller
from walrelay.admin.callers import Operator, Relay
from walrelay.admin.changes import NothingSaid, StartedChange, Stored, logged_change, started_change
from walrelay.admin.jobs import JobProgress, JobWork, Step
from walrelay.admin.problems import ApiProblem
from walrelay.admin.relays import AdminRelay
from walrelay.control.table import Pause, PauseRequest
from walrelay.operations import pausing
from walrelay.operations.pausing import Drain, DrainRequest, PauseCost
from walrelay.postgres.catalog import Catalog

router = APIRouter(tags=["pauses"])

AtLimit = Literal["resume", "drop_slot"]

_OBEYS = 3.0  # seconds in which a request waits for the leader to obey
_LONGEST = 10 * 365 * 86_400.0  # seconds


class PauseRequested(BaseModel):
    """Why, and when it ends; without an end it lasts until somebody resumes the relay."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[Stored, Field(max_length=1_000)] = Field(
        "", description="Everybody sees it who asks for the relay's state."
    )
    for_seconds: Annotated[float, Field(gt=0, le=_LONGEST, allow_inf_nan=False)] | None = None
    until: AwareDatetime | None = None
    limit_bytes: Annotated[int, Field(ge=1, lt=2**63)] | None = Field(
        None, description="How much WAL the slot may retain meanwhile."
    )
    at_limit: AtLimit = Field("resume", description="What happens at the limit. `drop_slot` takes the scope admin.")

    @model_validator(mode="after")
    def _is_clear(self) -> "PauseRequested":
        if self.for_seconds is not None and self.until is not None:
            raise ValueError("give `for_seconds` or `until`, not both")
        if self.at_limit == "drop_slot" and self.limit_bytes is None:
            raise ValueError("`at_limit` says what to do at a limit: give `limit_bytes`")
        return self


class DrainRequested(BaseModel):
    """Whether it is paused then, why, and how long it may take."""

    model_config = ConfigDict(extra="forbid")

    then_pause: bool = True
    reason: Annotated[Stored, Field(max_length=1_000)] = ""
    timeout_seconds: Annotated[float, Field(ge=0.1, le=86_400)] = 300.0


class ShownPause(BaseModel):
    """A pause as walrelay.relays has it."""

    reason: str
    by: str
    at: str
    until: str | None = Field(description="null: until somebody resumes the relay.")
    limit_bytes: int | None
    at_limit: AtLimit


class ShownPauseCost(BaseModel):
    """What a pause costs."""

    retained_bytes: int | None = Field(description="Of WAL, now; null: not known.")
    bytes_per_minute: int = Field(description="Of WAL that the server writes, at the present rate.")
    safe_bytes: int | None = Field(description="What may still be written before the slot is lost; null: no limit.")
    hours_left: float | None = Field(
        description="Until then, at the present rate; null: no limit, or nothing is written."
    )
    led: bool = Field(description="Whether an instance leads the relay, to obey; one that starts finds the pause.")


class PausedRelay(BaseModel):
    """The pause, also in words."""

    paused: str
    disobeyed: str = Field(description="Why it is not certain that the relay is paused by now; empty where it is.")
    pause: ShownPause
    cost: ShownPauseCost


class ResumedRelay(BaseModel):
    """`was_paused`: false if there was nothing to end."""

    was_paused: bool
    led: bool = Field(description="Whether an instance leads the relay, to obey.")
    disobeyed: str = Field(description="Why it is not certain that the relay goes on by now; empty where it does.")


@router.post("/relays/{relay}/pause", summary="Pause a relay")
def pause(relay: Relay, caller: Operator, request: Request, body: PauseRequested) -> PausedRelay:
    """It publishes nothing until it is resumed; nothing is lost. One that is paused already is paused on these terms
    from now on. `walrelay pause` says more.
    """
    if body.at_limit == "drop_slot" and not caller.may("admin"):
        raise ApiProblem(403, "to drop the slot at the limit takes the scope 'admin': it cannot be taken back")
    with logged_change(request, relay, caller, "pause", body) as catalog:
        relay.pace.look(catalog)
        contact = relay.wiring.contact
        begun = pausing.pause(catalog, contact.slot, relay.name, _asked(caller, body))
        asking = pausing.Asking(catalog, contact.dsn)
        disobeyed = pausing.await_obedience(asking, contact.slot, relay.name, Event(), _OBEYS)
    return PausedRelay(paused=str(begun), disobeyed=disobeyed, pause=_shown(begun), cost=_cost(relay))


@router.post("/relays/{relay}/resume", summary="Resume a relay that is paused")
def resume(relay: Relay, caller: Operator, request: Request, body: NothingSaid) -> ResumedRelay:
    """It goes on where it stopped."""
    with logged_change(request, relay, caller, "resume", body) as catalog:
        resumed = pausing.resume(relay.wiring.contact, catalog, relay.name, Event(), _OBEYS)
    return ResumedRelay(was_paused=resumed.was_paused, led=resumed.led, disobeyed=resumed.disobeyed)


@router.get("/relays/{relay}/pause-cost", summary="Say what a pause costs")
def cost(relay: Relay) -> ShownPauseCost:
    """Without pausing. The first question takes half a second, in which the rate is measured."""
    return _cost(relay)


@router.post("/relays/{relay}/restart", status_code=202, summary="Let a relay begin anew")
def restart(relay: Relay, caller: Operator, request: Request, body: NothingSaid) -> StartedChange:
    """As a job: it is paused, settles, and is resumed. Its process stays; `walrelay restart` says more."""

    def prepare(catalog: Catalog) -> JobWork:
        pausing.refuse_restart(catalog, relay.wiring.slot, relay.name)

        def do(progress: JobProgress) -> bool:
            state = ""
            for step in pausing.restart(relay.wiring.contact, catalog, relay.name, caller.name, progress.stop):
                state = step.state
                why = f": {step.error}" if step.error else ""
                progress.took(Step("steps", note=f"{state} after {step.seconds:.1f} s{why}"))
            progress.outcome = state
            return state not in ("", "paused")

        return JobWork(2, do)

    return started_change(request, relay, caller, "restart", body, prepare)


@router.post("/relays/{relay}/drain", status_code=202, summary="Publish what was committed, then pause")
def drain(relay: Relay, caller: Operator, request: Request, body: DrainRequested) -> StartedChange:
    """As a job, which counts the bytes of WAL that are confirmed. `walrelay drain` says more."""
    asked = DrainRequest(caller.name, body.reason, body.then_pause, body.timeout_seconds)

    def prepare(catalog: Catalog) -> JobWork:
        draining = Drain(relay.wiring.contact, catalog, relay.name, asked)

        def do(progress: JobProgress) -> bool:
            for confirmed in draining.steps(progress.stop):
                progress.took(Step("bytes", confirmed))
            if draining.pause is not None:
                progress.notes.append(draining.disobeyed or f"paused {draining.pause}")
            done = progress.counts.total() == draining.distance
            progress.outcome = f"published up to {draining.target}" if done else ""
            return done

        return JobWork(draining.distance, do, tells=True)

    return started_change(request, relay, caller, "drain", body, prepare)


def _asked(caller: Caller, body: PauseRequested) -> PauseRequest:
    end = None if body.until is None else body.until.isoformat()
    return PauseRequest(caller.name, body.reason, end, body.limit_bytes, body.at_limit == "drop_slot", body.for_seconds)


def _cost(relay: AdminRelay) -> ShownPauseCost:
    with relay.catalog() as catalog:
        found: PauseCost = pausing.pause_cost(catalog, relay.wiring.slot, relay.name, relay.pace)
    return ShownPauseCost(
        retained_bytes=found.retained,
        bytes_per_minute=found.per_minute,
        safe_bytes=found.safe,
        hours_left=found.hours_left,
        led=found.led,
    )


def _shown(pause: Pause) -> ShownPause:
    return ShownPause(
        reason=pause.reason,
        by=pause.by,
        at=pause.at,
        until=pause.until,
        limit_bytes=pause.limit,
        at_limit="drop_slot" if pause.drops_slot else "resume",
    )
