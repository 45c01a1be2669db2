"""The route that says what happened to rows of the outbox."""

from datetime import datetime
from threading import BoundedSemaphore
from time import sleep
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, Field

from walrelay.admin.callers import Operator, Relay
from walrelay.admin.changes import Stored
from walrelay.admin.problems import ApiProblem
from walrelay.errors import Retryable
from walrelay.operations import find as operation
from walrelay.operations.find import RowQuestion

router = APIRouter(tags=["rows"])

Short = Annotated[Stored, Field(min_length=1, max_length=1_000)]
_READING = 10.0  # seconds
_READERS = BoundedSemaphore(4)  # of topics at a time


class ShownCopy(BaseModel):
    """A message of the row, as a consumer finds it."""

    sink: str
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    position: str = Field(description="As the message's header `position` has it.")
    replayed: bool = Field(description="It has the header that says so.")


class ShownRowLetter(BaseModel):
    """The dead letter of a row."""

    letter: int | None = Field(description="Its number; null: it is in a topic only.")
    status: str
    error: str
    topic: str | None
    position: str


class ShownRowDestination(BaseModel):
    """What happened to one message of a row."""

    topic: str = Field(description="With the sink's name where a relay has several; empty: not known.")
    state: Literal["published", "waiting", "unknown", "dead_letter"]
    why: str


class ShownRow(BaseModel):
    """What happened to a row. Text that is not UTF-8 is {base64: ...}."""

    id: Any
    aggregate_type: Any
    aggregate_id: Any
    type: Any
    written_at: datetime | None = Field(description="The column created_at; null: not known.")
    committed_at: datetime | None = Field(description="Its commit, if the server has track_commit_timestamp.")
    in_table: bool = Field(description="Whether the row is in the table now.")
    state: Literal["published", "waiting", "unknown", "dead_letter", "dropped"]
    why: str = Field(description="Why that is so, and what to do.")
    dead_letter: ShownRowLetter | None
    destinations: list[ShownRowDestination] = Field(description="Each message of the row, by today's rules.")
    copies: list[ShownCopy]
    read_back: str = Field(description="done; not asked; or not possible, and why.")


class FoundRowPage(BaseModel):
    """The latest first."""

    rows: list[ShownRow]
    next: str | None = Field(description="`after` for the next page; null: this is the last.")
    notices: list[str] = Field(description="What limits the answer.")


@router.get("/relays/{relay}/rows", summary="Find rows: published or not, and where they are")
def rows(
    relay: Relay,
    _: Operator,
    id: Annotated[list[Short] | None, Query(max_length=100, description="The event's id; may be repeated.")] = None,  # noqa: A002
    aggregate_type: Short | None = None,
    aggregate_id: Annotated[Short | None, Query(description="Needs `aggregate_type`.")] = None,
    since: Annotated[AwareDatetime | None, Query(description="Written at or after this time.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Written before this time.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    after: Annotated[Stored, Query(max_length=4_000, description="`next` of the page before.")] = "",
    topic: Annotated[list[Short] | None, Query(max_length=20, description="Also read this topic back.")] = None,
    read_back: Annotated[bool, Query(description="Read the topics, for ten seconds at most.")] = False,
) -> FoundRowPage:
    """As `walrelay find` has it. All conditions together; one is needed."""
    if aggregate_id is not None and aggregate_type is None:
        raise ApiProblem(422, "aggregate_id needs aggregate_type")
    aggregate = None if aggregate_type is None else (aggregate_type, aggregate_id)
    question = RowQuestion(id or (), aggregate, since, until, max(limit, len(id or ())), after, read_back, topic or ())
    if not question.asks:
        raise ApiProblem(422, "say which rows: id, aggregate_type, since or until")
    with relay.catalog() as catalog:
        found = operation.look(relay.wiring, catalog, question, sleep)
    if read_back:
        if not _READERS.acquire(blocking=False):
            raise Retryable("four requests read topics back already")
        try:
            found = operation.read_back(relay.wiring, question, found, _READING)
        finally:
            _READERS.release()
    return FoundRowPage.model_validate(found.as_json())
