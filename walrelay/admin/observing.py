"""Routes that look at relays: their list, status, settings, and what the doctor finds."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from walrelay.admin.callers import Administrator, Reader, Relay, Relays
from walrelay.admin.changes import Stored
from walrelay.admin.problems import ProblemDocument, problem
from walrelay.admin.relays import AdminRelay
from walrelay.config.redaction import redacted
from walrelay.operations.status import Status
from walrelay.postgres.dsn import address

router = APIRouter(tags=["relays"])

_AT_ONCE = 4  # databases that are asked side by side


class ShownFinding(BaseModel):
    """What the doctor says of one thing."""

    subject: str
    verdict: Literal["ok", "warning", "problem"]
    detail: str
    fix: str = Field(description="A command to paste; empty where nothing is to be done.")


class ShownConnection(BaseModel):
    """A relay's connection to PostgreSQL."""

    pid: int
    application_name: str
    client_address: str | None
    connected_at: str
    role: str
    replicates: bool


class RelayStatus(BaseModel):
    """As `walrelay status --json` has it. Positions are LSNs, sizes bytes."""

    slot: str
    plugin: str | None
    database: str | None
    active: bool = Field(description="Whether a relay is connected.")
    active_pid: int | None
    wal_status: str | None
    current_lsn: str
    confirmed_lsn: str | None
    restart_lsn: str | None
    lag_bytes: int | None
    lag_seconds: float | None = Field(description="The age of the oldest event that is not confirmed; null: not known.")
    retained_wal_bytes: int | None
    safe_wal_bytes: int | None = Field(description="What may still be written before the slot is lost; null: no limit.")
    held_by: str
    catalog_xmin_age: int | None
    waits_for: str
    dead_letters: int | None = Field(description="Open ones; null: there is no table for them.")
    leader: ShownConnection | None
    standbys: list[ShownConnection]
    sharing: list[ShownConnection]
    state: str = Field(description="Of the relay, as `walrelay relays` has it.")
    why: str = Field(description="Why it is in that state; empty where all is well.")
    since: str | None = Field(description="When the state began; null: not known.")
    error_count: int | None = Field(description="Errors and stalls since its process began the relay; null: not known.")
    next: str = Field(description="What to do about it; empty where all is well.")
    problems: list[ShownFinding]


class RelaySummary(BaseModel):
    """A relay of the settings file."""

    name: str
    slot: str
    database: str = Field(description="Host, port and name, without user and password.")
    sinks: list[str] = Field(description="The kinds of its sinks.")
    delivery: str
    status: RelayStatus | None = Field(default=None, description="null: it could not be asked; `problem` says why.")
    problem: ProblemDocument | None = None


class RelayPage(BaseModel):
    """Relays in the order of the settings file."""

    relays: list[RelaySummary]
    next: str | None = Field(description="`after` for the next page; null: this is the last.")
    left_out: list[str] = Field(description="What is wrong with databases that a query found.")


class Examination(BaseModel):
    """As `walrelay doctor --json` has it."""

    findings: list[ShownFinding]
    ready: bool = Field(description="Whether the relay can start.")


@router.get("/relays", summary="List the relays with their status")
def relays(
    caller: Reader,
    relays: Relays,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: Annotated[Stored, Query(max_length=63, description="The name of the last relay of the page before.")] = "",
) -> RelayPage:
    """Those that the caller sees. One that cannot be asked has a problem instead of a status."""
    found = relays.found()
    seen = [each for each in found.relays.values() if caller.sees(each.name)]
    names = [each.name for each in seen]
    begin = names.index(after) + 1 if after in names else 0
    page = seen[begin : begin + limit]
    last = page[-1].name if page and begin + limit < len(seen) else None
    left_out = [*found.left_out] if caller.relays is None else []
    return RelayPage(relays=_summaries(page), next=last, left_out=left_out)


def _summaries(relays: Sequence[AdminRelay]) -> list[RelaySummary]:
    if not relays:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(relays))) as executor:
        return [*executor.map(_summary, relays)]


def _summary(relay: AdminRelay) -> RelaySummary:
    settings = relay.settings
    summary = RelaySummary(
        name=relay.name,
        slot=settings.source.slot,
        database=address(settings.source.dsn.get_secret_value()),
        sinks=[each.kind for each in settings.named_sinks.values()],
        delivery=settings.delivery,
    )
    try:
        return summary.model_copy(update={"status": _shown(relay.status())})
    except Exception as error:
        return summary.model_copy(update={"problem": problem(error, f"/api/v1/relays/{relay.name}")})


def _shown(found: Status) -> RelayStatus:
    members: dict[str, Any] = found._asdict()
    members["leader"] = found.leader and found.leader._asdict()
    for name in ("standbys", "sharing", "problems"):
        members[name] = [each._asdict() for each in members[name]]
    return RelayStatus.model_validate(members)


@router.get("/relays/{relay}", summary="Show one relay's status")
def one(relay: Relay) -> RelaySummary:
    """The slot's position, its lag, and the WAL that it retains and may still retain. An answer is good for a second,
    or for ten while no relay is connected.
    """
    summary = _summary(relay)
    if summary.problem is not None:
        relay.status()  # raises it
    return summary


@router.get("/relays/{relay}/doctor", summary="Examine what a relay needs")
def examination(relay: Relay) -> Examination:
    """Asks database and broker for all that must be true, and changes nothing. An answer is good for ten seconds."""
    findings = [ShownFinding(**each._asdict()) for each in relay.findings()]
    return Examination(findings=findings, ready=all(each.verdict != "problem" for each in findings))


@router.get("/relays/{relay}/settings", summary="Show a relay's settings without secrets")
def settings(relay: Relay, _: Administrator) -> dict[str, Any]:
    """All settings with their defaults; secrets are hidden."""
    return redacted(relay.settings)
