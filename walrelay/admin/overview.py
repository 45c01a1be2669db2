"""Routes for whoever wants to see all relays at once: the overview, the last hours of one, and who asks."""

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from walrelay import __version__
from walrelay.admin.access import Caller
from walrelay.admin.callers import Reader, Relay
from walrelay.admin.watching import AdminWatch, Overview, WatchedRelay
from walrelay.config.admin import AccessScope
from walrelay.operations.overview import Level, SeenRelay

router = APIRouter(tags=["overview"])


class ShownCaller(BaseModel):
    """Whoever asks, as the settings know that caller."""

    name: str
    way: Literal["anonymous", "token", "certificate", "proxy"]
    scope: AccessScope
    relays: list[str] | None = Field(description="Those that exist for the caller; null: all.")
    version: str = Field(description="Of walrelay.")


class OverviewPause(BaseModel):
    """A pause that is not over."""

    by: str | None
    reason: str | None
    at: str | None
    until: str | None = Field(description="null: until somebody resumes the relay.")
    limit_bytes: int | None = Field(description="How much WAL the slot may retain meanwhile; null: any amount.")
    at_limit: Literal["resume", "drop_slot"] | None


class RelayOverview(BaseModel):
    """A relay at a glance. Sizes are bytes, times seconds; null where nobody knows."""

    name: str
    slot: str
    database: str = Field(description="Host, port and name, without user and password.")
    in_settings: bool = Field(description="Whether it is of this settings file, so that the API can act on it.")
    sinks: list[str] | None
    delivery: str | None
    level: Level
    why: str = Field(description="What the level says, in a few words.")
    todo: str = Field(description="A command to paste; empty where nothing is to be done.")
    state: str
    instance: str | None = Field(description="HOST:PID of the leader; null: nobody leads.")
    standbys: int
    position: str | None = Field(description="The LSN that is confirmed.")
    lag_bytes: int | None
    lag_seconds: float | None = Field(description="The age of the oldest event that has waited for long.")
    retained_bytes: int | None
    safe_bytes: int | None = Field(description="What may still be written before the slot is lost; null: any amount.")
    safe_seconds: float | None = Field(description="How long that takes at the present rate of WAL.")
    wal_status: str | None
    published_per_second: float | None
    bytes_per_second: float | None
    in_flight: int | None
    latency_p50: float | None
    latency_p99: float | None
    dead_letters: int | None
    since: str | None = Field(description="When the state began, as far as that is known.")
    last_error: str | None = Field(description="Also one that is over; null below the scope operate.")
    last_error_at: str | None
    error_count: int | None = Field(description="Errors and stalls since the relay's process began it.")
    paused: OverviewPause | None
    updated_at: str | None = Field(description="When the leader last reported.")


class ShownDatabaseProblem(BaseModel):
    """Why nothing is known of the relays of a database."""

    database: str
    detail: str
    hint: str


class ShownOverview(BaseModel):
    """All relays that the caller sees, those to be looked at first."""

    at: float = Field(description="Unix time: as of then.")
    relays: list[RelayOverview]
    problems: list[ShownDatabaseProblem]


class ShownHistory(BaseModel):
    """The last minutes or hours of a relay, as long as this process has run."""

    step_seconds: float
    at: list[float] = Field(description="Unix times at which steps begin.")
    series: dict[str, list[float | None]] = Field(description="A value for each step; null: nothing is known.")


def _watch(request: Request) -> AdminWatch:
    watch: AdminWatch = request.app.state.watch
    return watch


Watching = Annotated[AdminWatch, Depends(_watch)]

_URGENCY: Mapping[Level, int] = {"critical": 0, "warning": 1, "ok": 2}


def shown_overview(found: Overview, caller: Caller) -> ShownOverview:
    """Of what the caller sees: a relay of another settings file only where all relays exist for the caller."""
    seen = [each for each in found.relays if _sees(caller, each)]
    relays = [_shown(each, caller) for each in seen]
    relays.sort(key=lambda each: (_URGENCY[each.level], each.name, each.slot))
    databases = {each.database for each in relays}
    problems = [each for each in found.problems if each.database in databases]
    return ShownOverview(
        at=found.at, relays=relays, problems=[ShownDatabaseProblem(**each._asdict()) for each in problems]
    )


def _sees(caller: Caller, relay: WatchedRelay) -> bool:
    return caller.relays is None or (relay.admin is not None and caller.sees(relay.admin.name))


def _shown(each: WatchedRelay, caller: Caller) -> RelayOverview:
    admin, (seen, judgement, _, rates, safe_seconds, in_flight, latency) = each.admin, each.look
    pause = OverviewPause(
        by=seen.paused_by,
        reason=seen.pause_reason,
        at=seen.paused_at,
        until=seen.paused_until,
        limit_bytes=seen.pause_limit,
        at_limit=seen.at_pause_limit,  # type: ignore[arg-type]
    )
    operates = caller.may("operate")
    return RelayOverview(
        name=admin.name if admin is not None else seen.name,
        slot=seen.slot,
        database=each.database,
        in_settings=admin is not None,
        sinks=[sink.kind for sink in admin.settings.named_sinks.values()] if admin is not None else None,
        delivery=admin.settings.delivery if admin is not None else None,
        level=judgement.level,
        why=judgement.why if operates else _without_quotes(each.look),
        todo=judgement.todo,
        state=seen.state,
        instance=seen.instance,
        standbys=seen.standbys,
        position=seen.position,
        lag_bytes=seen.lag_bytes,
        lag_seconds=seen.lag_seconds,
        retained_bytes=seen.retained_bytes,
        safe_bytes=seen.safe_bytes,
        safe_seconds=safe_seconds,
        wal_status=seen.wal_status,
        published_per_second=rates.published if rates is not None else None,
        bytes_per_second=rates.bytes if rates is not None else None,
        in_flight=in_flight,
        latency_p50=latency.p50 if latency is not None else None,
        latency_p99=latency.p99 if latency is not None else None,
        dead_letters=seen.dead_letters,
        since=seen.since,
        last_error=seen.last_error if operates else None,
        last_error_at=seen.last_error_at,
        error_count=seen.error_count,
        paused=pause if seen.paused else None,
        updated_at=seen.updated_at,
    )


def _without_quotes(look: SeenRelay) -> str:
    """An error may quote an event, and so may what a sink or a registry says."""
    why, stalled = look.judgement.why, look.live.stalled if look.live is not None else None
    for quoted in (look.seen.last_error, stalled and stalled.why):
        if quoted and quoted in why:
            why = why.partition(quoted)[0].removesuffix(": ")
    return why or "an error, which takes the scope operate to see"


@router.get("/me", summary="Show who asks")
def me(caller: Reader) -> ShownCaller:
    """By which name and scope the API knows the caller."""
    relays = None if caller.relays is None else sorted(caller.relays)
    return ShownCaller(name=caller.name, way=caller.way, scope=caller.scope, relays=relays, version=__version__)


@router.get("/overview", summary="Show all relays at a glance")
def overview(caller: Reader, watch: Watching) -> ShownOverview:
    """Every relay of the settings file, and every other that its databases know of, those to be looked at first. It
    costs a database a few statements a second, however many ask.
    """
    return shown_overview(watch.overview(), caller)


@router.get("/relays/{relay}/history", summary="Show a relay's last hours in numbers")
def history(relay: Relay, watch: Watching, minutes: Annotated[int, Query(ge=1, le=1440)] = 60) -> ShownHistory:
    """In steps of 15 seconds for the last hour, of a minute for longer. It begins when this process began."""
    found = watch.history(relay, minutes * 60.0)
    return ShownHistory(step_seconds=found.step, at=[*found.at], series={k: [*v] for k, v in found.series.items()})
