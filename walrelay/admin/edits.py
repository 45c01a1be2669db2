"""Routes that correct the record of a dead letter before it is replayed, and take that back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from walrelay.admin.callers import Operator, Relay
from walrelay.admin.changes import logged_change
from walrelay.admin.letters import Short, WholeDeadLetter, no_such_letter, patience
from walrelay.admin.problems import ApiProblem
from walrelay.admin.relays import AdminRelay
from walrelay.dead_letter import message_json
from walrelay.dead_letters import DeadLetterTable, StoredDeadLetter
from walrelay.dead_letters.editing import DeadLetterEditing, EditTrial, dead_letter_to_edit
from walrelay.dead_letters.forms import record_shown, whole
from walrelay.errors import Fatal

router = APIRouter(tags=["dead letters"])

Letter = Annotated[int, Path(ge=1, lt=2**63)]


class EditRequested(BaseModel):
    """The record as it is to be published, in the form of `record`. Payload and headers may be JSON; fields that are
    left out stay as they were. `dry_run`: show what it becomes, and store nothing.
    """

    model_config = ConfigDict(extra="forbid")

    record: dict[str, Any]
    reason: Short
    dry_run: bool = False


class EditOutcome(BaseModel):
    """What a replay makes of the dead letter as edited, by today's rules."""

    messages: list[dict[str, Any]] = Field(description="In the form of the stdout sink.")
    refused: str | None = Field(description="Why a replay would refuse it.")
    hint: str
    notices: list[str] = Field(description="What else follows from the edit.")
    difference: str = Field(description="From the original record, as a unified diff.")


class EditedDeadLetter(WholeDeadLetter):
    """The dead letter as edited; `dry_run`: as it would be."""

    becomes: EditOutcome
    dry_run: bool


class NotedEdit(BaseModel):
    """What the log of changes has of an edit: not the event."""

    letter: int
    reason: str | None = None


@router.put("/relays/{relay}/dead-letters/{letter:int}/edit", summary="Correct a dead letter's record")
def put(relay: Relay, caller: Operator, request: Request, letter: Letter, body: EditRequested) -> EditedDeadLetter:
    """A replay publishes it as edited. The original stays, and so do id, position and time of the commit. Another edit
    takes the place of the first.
    """
    with _open(relay, letter) as (editing, stored):
        try:
            trial = editing.tried(stored, body.record)
        except Fatal as error:
            raise ApiProblem(422, f"body.record: {error}", error.hint) from None
    if not body.dry_run:
        noted = NotedEdit(letter=letter, reason=body.reason)
        with logged_change(request, relay, caller, "dead_letters.edit", noted) as catalog:
            table = DeadLetterTable(catalog, relay.wiring.slot, patience=patience(relay))
            stored = DeadLetterEditing(relay.wiring, table).store(stored, trial.record, caller.name, body.reason)
    shown = whole(stored)
    if body.dry_run:
        shown |= {"edited": True, "edited_by": caller.name, "edit_reason": body.reason, "edited_at": None}
        shown |= {"edited_record": record_shown(trial.record)}
    return EditedDeadLetter.model_validate({**shown, "becomes": _becomes(trial), "dry_run": body.dry_run})


@router.delete("/relays/{relay}/dead-letters/{letter:int}/edit", summary="Restore a dead letter's record")
def delete(relay: Relay, caller: Operator, request: Request, letter: Letter) -> WholeDeadLetter:
    """Takes an edit back: a replay publishes the original."""
    with _open(relay, letter) as (_, stored):
        pass
    with logged_change(request, relay, caller, "dead_letters.restore", NotedEdit(letter=letter)) as catalog:
        table = DeadLetterTable(catalog, relay.wiring.slot, patience=patience(relay))
        restored = DeadLetterEditing(relay.wiring, table).take_back(stored)
    return WholeDeadLetter.model_validate(whole(restored))


@contextmanager
def _open(relay: AdminRelay, letter: int) -> Iterator[tuple[DeadLetterEditing, StoredDeadLetter]]:
    with relay.catalog() as catalog:
        table = DeadLetterTable(catalog, relay.wiring.slot, patience=patience(relay))
        stored = dead_letter_to_edit(table, letter)
        if stored is None:
            raise no_such_letter(letter)
        yield DeadLetterEditing(relay.wiring, table), stored


def _becomes(trial: EditTrial) -> EditOutcome:
    return EditOutcome(
        messages=[json.loads(message_json(each)) for each in trial.messages],
        refused=trial.refusal or None,
        hint=trial.hint,
        notices=list(trial.notices),
        difference=trial.difference,
    )
