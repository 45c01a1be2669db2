"""Routes that ask the process that leads a relay: its live numbers, and the last events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from walrelay.admin.callers import Reader, Relay
from walrelay.admin.changes import Stored
from walrelay.admin.problems import ApiProblem
from walrelay.control.asking import EventFilter, RecentEvent, RelayActivity

router = APIRouter(tags=["activity"])

Short = Annotated[Stored, Query(max_length=1_000)]


class ShownPercentiles(BaseModel):
    """What half of the values are at most, and what 99 of 100 are."""

    p50: float
    p99: float


class ShownStall(BaseModel):
    """Who keeps the relay from going on: sink or registry."""

    by: str
    since: datetime
    why: str | None = Field(description="null below the scope operate.")


class ShownRule(BaseModel):
    """How many records a rule dropped."""

    rule: str
    dropped: int


class ShownTopic(BaseModel):
    """What a topic was sent."""

    sink: str = Field(description="Empty where the relay has one, without a name.")
    topic: str
    messages: int
    bytes: int


class ShownActivity(BaseModel):
    """A relay as its process sees it. Counters since the process began: rates are their differences."""

    slot: str
    instance: str
    at: datetime
    since: datetime = Field(description="When the process began the relay: counters began at 0 then.")
    state: str
    records: int
    published: int
    published_bytes: int = Field(description="Of what the sinks were handed; may be estimated while that is much.")
    confirmed_lsn: str | None
    in_flight: int
    back_pressure_seconds: float
    registry_wait_seconds: float
    retries: int
    dead_lettered: int
    dropped: int
    skipped: int
    latency: ShownPercentiles | None = Field(description="Seconds from commit to receipt, in the last minute.")
    stalled: ShownStall | None
    last_error: str | None = Field(description="null below the scope operate, too.")
    last_error_at: datetime | None
    rules: list[ShownRule]
    topics: list[ShownTopic]
    transaction_rows: ShownPercentiles | None = Field(description="Of the last transactions.")
    kept: int = Field(description="How many events there are to ask for.")
    last_event: int = Field(description="The number of the latest event.")


class ShownEvent(BaseModel):
    """An event that was handed to its sink at `at`. Times are null while they are not known."""

    number: int = Field(description="Counted by the process, from 1.")
    at: datetime
    id: str | None
    type: str | None
    topic: str
    sink: str
    key: str | None = Field(description="null below the scope operate.")
    position: str | None
    commit_lsn: str
    committed_at: datetime
    read_at: datetime
    published_at: datetime
    acknowledged_at: datetime | None
    confirmed_at: datetime | None
    bytes: int
    payload: str | None = Field(description="null below the scope operate, and without `events.payloads`.")


class ShownEvents(BaseModel):
    """The newest first."""

    events: list[ShownEvent]
    instance: str
    kept: int = Field(description="How many the process keeps.")
    since: datetime = Field(description="When the process began the relay.")


@router.get("/relays/{relay}/activity", summary="Show a relay's live numbers")
def live(relay: Relay, caller: Reader) -> ShownActivity:
    """As the process that leads counts them: it is asked at most once a second."""
    return shown_activity(relay.activity(), operates=caller.may("operate"))


@router.get("/relays/{relay}/events", summary="List the last events")
def events(
    relay: Relay,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    topic: Annotated[Short, Query(description="`*` matches any characters.")] = "",
    id: Short = "",  # noqa: A002
    key: Annotated[Short, Query(description="Takes the scope operate.")] = "",
) -> ShownEvents:
    """Those that the process that leads keeps in its memory, by `events.keep`."""
    operates = caller.may("operate")
    if key and not operates:
        raise ApiProblem(403, "to look for a key takes the scope 'operate': it is of the event")
    found, wanted = relay.recent_events(), EventFilter(topic, id, key)
    chosen = [each for each in found.events if wanted.matches(each)][:limit]
    return shown_events(found.activity, chosen, operates=operates)


def shown_activity(found: RelayActivity, *, operates: bool) -> ShownActivity:
    """An error may quote an event, and so may what a sink or a registry says."""
    members = _members(found)
    if not operates:
        members["last_error"] = None
        members["stalled"] = members["stalled"] and {**members["stalled"], "why": None}
    return ShownActivity.model_validate(members)


def shown_events(activity: RelayActivity, events: Sequence[RecentEvent], *, operates: bool) -> ShownEvents:
    about = {name: getattr(activity, name) for name in ("instance", "kept", "since")}
    hidden = {} if operates else {"key": None, "payload": None}
    return ShownEvents.model_validate({"events": [each._asdict() | hidden for each in events], **about})


def _members(value: Any) -> Any:
    """Named tuples as pydantic takes them."""
    if isinstance(value, list):
        return [_members(each) for each in value]
    if hasattr(value, "_asdict"):
        return {name: _members(each) for name, each in value._asdict().items()}
    return value
