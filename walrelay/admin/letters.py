"""Routes for dead letters: list, show, replay, discard. What changes them is a job."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from walrelay.admin.access import Caller
from walrelay.admin.callers import Administrator, Operator, Reader, Relay
from walrelay.admin.changes import ChangeRequested, StartedChange, Stored, started_change
from walrelay.admin.jobs import JobWork, Step, in_steps
from walrelay.admin.problems import ApiProblem
from walrelay.admin.relays import AdminRelay
from walrelay.dead_letters import DeadLetterFilter, DeadLetterPlace, DeadLetterTable, TenantFilter
from walrelay.dead_letters.counts import dead_letter_counts
from walrelay.dead_letters.forms import summary, whole
from walrelay.dead_letters.replay import dead_letter_replay
from walrelay.postgres.catalog import Catalog

router = APIRouter(tags=["dead letters"])

DeadLetterStatus = Literal["waiting", "blocked", "replayed", "discarded", "skipped"]
Short = Annotated[Stored, Field(min_length=1, max_length=1_000)]
Tenants = Annotated[list[Short], Field(max_length=1_000)]

_BATCH = 1_000  # dead letters that are discarded at a time


class ShownDeadLetter(BaseModel):
    """A dead letter without its record and message. What may be of the event itself takes the scope operate."""

    letter: int = Field(description="Its number.")
    position: str
    number: int
    status: DeadLetterStatus
    error: str
    reason: str | None = Field(description="null below the scope operate: it may quote the event.")
    topic: str | None
    key: Any = Field(description="Text, or {base64: ...}; null if there is none, and below the scope operate.")
    id: str = Field(description="Of the record.")
    attempts: int
    first_at: datetime
    last_at: datetime
    slot: str
    sink: str
    closed_at: datetime | None
    closed_by: str | None
    closed_why: str | None
    edited: bool = Field(description="A replay publishes its `edited_record`.")
    edited_by: str | None
    edited_at: datetime | None
    edit_reason: str | None = Field(description="null below the scope operate.")


class WholeDeadLetter(ShownDeadLetter):
    """A dead letter with its record and message; bytes that are not UTF-8 as {base64: ...}."""

    record: dict[str, Any] | None
    edited_record: dict[str, Any] | None
    message: dict[str, Any] | None
    raw: Any


class DeadLetterPage(BaseModel):
    """In the order of their positions."""

    dead_letters: list[ShownDeadLetter]
    next: str | None = Field(description="`after` for the next page; null: this is the last.")
    notices: list[str] = Field(description="What the filter by tenants left out.")


class CountedError(BaseModel):
    """How many open dead letters have this error."""

    error: str
    count: int


class CountedTopic(BaseModel):
    """How many open dead letters have this topic; null: none."""

    topic: str | None
    count: int


class DeadLetterSummary(BaseModel):
    """`by_status` counts all dead letters, everything else the open ones: waiting or blocked."""

    open: int
    by_status: dict[str, int]
    by_error: list[CountedError] = Field(description="The most frequent first.")
    by_topic: list[CountedTopic] = Field(description="The 20 with the most.")
    oldest: datetime | None = Field(description="When the first of them was first refused.")
    newest: datetime | None = Field(description="When the last of them was first refused.")


class DeadLetterSelection(BaseModel):
    """Which dead letters; all conditions together. `everything: true` where there is no condition."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[Annotated[int, Field(ge=1, lt=2**63)]], Field(max_length=10_000)] | None = None
    status: list[DeadLetterStatus] | None = None
    topic: Short | None = Field(default=None, description="`*` matches any characters.")
    error: Short | None = None
    since: AwareDatetime | None = Field(default=None, description="Last refused at or after this time.")
    until: AwareDatetime | None = Field(default=None, description="Last refused before this time.")
    key: Short | None = None
    tenant: Tenants | None = None
    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    everything: bool = False

    @model_validator(mode="after")
    def _is_meant(self) -> "DeadLetterSelection":
        told = self.model_dump(exclude_unset=True, exclude={"everything", "limit"})
        if self.everything == bool({name for name, value in told.items() if value is not None}):
            raise ValueError("say which dead letters by a condition, or `everything: true` without one")
        return self


class LettersChosen(ChangeRequested):
    """Selection of dead letters to be changed."""

    select: DeadLetterSelection


class ReplayRequested(LettersChosen):
    """Selection of dead letters to be replayed."""

    even_expired: bool = Field(False, description="Also to topics that delete messages of that age at once.")


class DiscardRequested(LettersChosen):
    """What is to be given up, and why: the reason is stored with each."""

    reason: Short


@router.get("/relays/{relay}/dead-letters", summary="List dead letters")
def listing(
    relay: Relay,
    caller: Reader,
    status: Annotated[list[DeadLetterStatus] | None, Query(description="Open ones, if there is none.")] = None,
    everything: Annotated[bool, Query(description="Closed ones too.")] = False,
    topic: Annotated[Short | None, Query(description="`*` matches any characters.")] = None,
    error: Short | None = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
    id: Annotated[Short | None, Query(description="Its number, or the id of the record.")] = None,  # noqa: A002
    key: Annotated[Short | None, Query(description="Takes the scope operate.")] = None,
    tenant: Annotated[Tenants | None, Query(description="Takes the scope operate.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    after: Annotated[Stored, Query(max_length=100, description="`next` of the page before.")] = "",
) -> DeadLetterPage:
    """In the order of their positions, page by page. 100,000 take no longer than ten."""
    if (key or tenant) and not caller.may("operate"):
        raise ApiProblem(403, "to look for a key or a tenant takes the scope 'operate': they are of the event")
    notices = list[str]()
    tenants = TenantFilter(tenant, relay.wiring, notices.append) if tenant else None
    begin = _place(after)
    wanted = DeadLetterFilter(status, topic, error, since, until, id, _raw(key), limit + 1, tenants, after=begin)
    with relay.catalog() as catalog:
        table = DeadLetterTable(catalog, relay.wiring.slot, patience=patience(relay))
        ids = table.find(wanted if everything else wanted.open)
        letters = [*table.letters(ids[:limit], whole=False)]
    shown = [_shown(summary(each), caller) for each in letters]
    last = str(letters[-1].place) if len(ids) > limit else None
    return DeadLetterPage(dead_letters=shown, next=last, notices=notices)


@router.get("/relays/{relay}/dead-letters/summary", summary="Count dead letters")
def counts(relay: Relay, _: Reader) -> DeadLetterSummary:
    """By status, error and topic. 100,000 take less than a tenth of a second."""
    with relay.catalog() as catalog:
        table = DeadLetterTable(catalog, relay.wiring.slot, patience=patience(relay))
        found = dead_letter_counts(table, relay.wiring.slot)
    return DeadLetterSummary(
        open=found.open,
        by_status=found.by_status,
        by_error=[CountedError(error=error, count=count) for error, count in found.by_error.items()],
        by_topic=[CountedTopic(topic=topic, count=count) for topic, count in found.by_topic.items()],
        oldest=found.oldest,
        newest=found.newest,
    )


@router.get("/relays/{relay}/dead-letters/{letter:int}", summary="Show a dead letter with its record and message")
def show(relay: Relay, _: Operator, letter: Annotated[int, Path(ge=1, lt=2**63)]) -> WholeDeadLetter:
    """As `walrelay dlq show` prints it."""
    with relay.catalog() as catalog:
        table = DeadLetterTable(catalog, relay.wiring.slot, patience=patience(relay))
        for found in table.letters(table.find(DeadLetterFilter(ids=[letter]))):
            return WholeDeadLetter.model_validate(whole(found))
    raise no_such_letter(letter)


@router.post("/relays/{relay}/dead-letters/replay", status_code=202, summary="Publish dead letters again")
def replay(relay: Relay, caller: Operator, request: Request, body: ReplayRequested) -> StartedChange:
    """By today's settings, with those that are blocked behind them; `walrelay dlq replay` says more. Open ones, if no
    status is given.
    """

    def prepare(catalog: Catalog) -> JobWork:
        table = DeadLetterTable(catalog, relay.wiring.slot)
        ids, statuses = table.find_to_replay(_filter(relay, body.select))
        replaying = dead_letter_replay(relay.wiring, table, caller.name, even_expired=body.even_expired)
        return in_steps(
            len(ids), (Step(each.outcome, note=_note(each.id, each.why)) for each in replaying.replay(ids, statuses))
        )

    return started_change(request, relay, caller, "dead_letters.replay", body, prepare)


@router.post("/relays/{relay}/dead-letters/discard", status_code=202, summary="Give up dead letters")
def discard(relay: Relay, caller: Administrator, request: Request, body: DiscardRequested) -> StartedChange:
    """They will not be published, and stay in the table as discarded, with who, when and why. Open ones only."""

    def prepare(catalog: Catalog) -> JobWork:
        table = DeadLetterTable(catalog, relay.wiring.slot)
        ids = table.find_to_discard(_filter(relay, body.select))
        return in_steps(len(ids), _discarded(table, ids, caller.name, body.reason))

    return started_change(request, relay, caller, "dead_letters.discard", body, prepare)


def _discarded(table: DeadLetterTable, ids: list[int], by: str, why: str) -> Iterator[Step]:
    for start in range(0, len(ids), _BATCH):
        part = ids[start : start + _BATCH]
        done = table.discard(part, by, why)
        yield Step("discarded", done)
        if done < len(part):
            yield Step("left", len(part) - done, "some were closed meanwhile")


def _filter(relay: AdminRelay, selection: DeadLetterSelection) -> DeadLetterFilter:
    tenants = TenantFilter(selection.tenant, relay.wiring, lambda text: None) if selection.tenant else None
    return DeadLetterFilter(
        selection.status,
        selection.topic,
        selection.error,
        selection.since,
        selection.until,
        None,
        _raw(selection.key),
        selection.limit,
        tenants,
        selection.ids,
    )


def _raw(key: str | None) -> bytes | None:
    return None if key is None else key.encode()


def _place(text: str) -> DeadLetterPlace | None:
    try:
        return DeadLetterPlace.parse(text) if text else None
    except ValueError:
        raise ApiProblem(422, "`after` is not what `next` of a page said") from None


def no_such_letter(letter: int) -> ApiProblem:
    return ApiProblem(404, f"there is no dead letter {letter}", "GET dead-letters lists them.")


def patience(relay: AdminRelay) -> float:
    """Seconds to wait for who has dead letters locked."""
    return relay.settings.admin.statement_timeout


def _shown(members: dict[str, Any], caller: Caller) -> ShownDeadLetter:
    if not caller.may("operate"):
        members = {**members, "reason": None, "key": None, "edit_reason": None}
    return ShownDeadLetter.model_validate(members)


def _note(id_: int, why: str) -> str:
    return f"dead letter {id_}: {why}" if why else ""
