"""`walrelay dlq edit`: the record of a dead letter, corrected before it is replayed."""

import json
from typing import Any, TextIO

import click

from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.dlq.forms import opened
from walrelay.cli.options import operator
from walrelay.dead_letter import message_json
from walrelay.dead_letters import StoredDeadLetter
from walrelay.dead_letters.editing import (
    DeadLetterEditing,
    EditTrial,
    as_text,
    dead_letter_to_edit,
    difference,
    edited_record,
)
from walrelay.errors import Fatal


@click.command()
@one_relay
@click.argument("id_", metavar="ID")
@click.option(
    "--file",
    "given",
    type=click.File(encoding="utf-8", errors="surrogateescape"),
    help="The record as JSON; - for stdin.",
)
@click.option("--reason", help="The reason; it is stored with the edit, your name and the time.")
@click.option("--take-back", is_flag=True, help="Restore the original record.")
@click.option("--dry-run", is_flag=True, help="Show the difference and what it becomes, and store nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def edit(
    relay: Chosen, id_: str, given: TextIO | None, reason: str | None, take_back: bool, dry_run: bool, yes: bool
) -> None:
    """Correct the record of an open dead letter. A replay publishes it as edited.

    ID is the dead letter's number, or the id of the record. Without --file the record opens in $EDITOR. The original
    stays, and so do id, position and time; another edit takes the place of the first. Fields that are left out stay as
    they were. `walrelay docs dead-letters`.

    \b
    Example:
      walrelay dlq edit 17 --reason 'the image is in the bucket now'
      walrelay dlq show 17 | jq '.record + {topic: "images"}' > edited.json
      walrelay dlq edit 17 --file edited.json --reason 'wrong topic'
      walrelay dlq edit 17 --take-back
    """
    if take_back and (given or reason):
        raise click.UsageError("--take-back needs neither --file nor --reason.")
    if not reason and not take_back and not dry_run:
        raise click.UsageError("Say why: --reason '...' is stored with the edit.")
    settings = relay.settings()
    with opened(settings) as (wiring, table):
        stored = dead_letter_to_edit(table, id_)
        if stored is None:
            raise Fatal(f"there is no dead letter {id_!r}", hint="`walrelay dlq list` lists them.")
        if take_back:
            _take_back(DeadLetterEditing(wiring, table), stored, dry_run=dry_run, yes=yes)
            return
    members = _of_editor(stored) if given is None else _parsed(given.read())  # which may take hours: not connected
    with opened(settings) as (wiring, table):
        editing = DeadLetterEditing(wiring, table)
        trial = editing.tried(stored, members)
        _show(trial)
        if dry_run:
            click.echo("nothing is stored", err=True)
            return
        if not yes:
            click.confirm(f"Store this edit of dead letter {stored.id}?", abort=True, err=True)
        editing.store(stored, trial.record, operator(), reason or "")
    click.echo(f"dead letter {stored.id} is edited")
    click.echo(f"to publish it: walrelay dlq replay --id {stored.id}", err=True)


def _take_back(editing: DeadLetterEditing, stored: StoredDeadLetter, *, dry_run: bool, yes: bool) -> None:
    original = stored.letter.record
    if stored.edit is not None and original is not None:
        click.echo(difference(original, stored.edit.record, back=True), nl=False)
        if dry_run:
            click.echo("nothing is stored", err=True)
            return
        if not yes:
            click.confirm(f"Restore the original record of dead letter {stored.id}?", abort=True, err=True)
    editing.take_back(stored)
    click.echo(f"dead letter {stored.id} is as it was")


def _of_editor(stored: StoredDeadLetter) -> Any:
    """What the operator leaves in the editor; opened again, if wanted, while that is no record."""
    original = stored.letter.record
    assert original is not None, "what has no record is refused"
    text = as_text(stored.record or original)
    while True:
        try:
            edited = click.edit(text, extension=".json")
        except UnicodeDecodeError as cause:
            raise Fatal(f"the editor did not save UTF-8: {cause}", hint="Nothing is stored.") from None
        if edited is None:
            raise Fatal("nothing is edited: the editor did not save", hint="--file takes the record from a file.")
        try:
            members = _parsed(edited)
            edited_record(original, members)
        except Fatal as error:
            click.echo(f"{error}\n{error.hint}", err=True)
            click.confirm("Open the editor again?", abort=True, err=True)
            text = edited
        else:
            return members


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise Fatal(
            f"this is not JSON: {cause}",
            hint="Nothing is stored. Write it as `walrelay dlq show ID | jq .record` does.",
        ) from None


def _show(trial: EditTrial) -> None:
    """The difference on stdout; what becomes of it on stderr."""
    click.echo(trial.difference, nl=False)
    for message in trial.messages:
        members = json.loads(message_json(message))
        size = len(message.value or b"")
        click.echo(f"it becomes {size} bytes for topic {members['topic']}, key {members['key']}", err=True)
    for notice in trial.notices:
        click.secho(f"note: {notice}", fg="yellow", err=True)
    if trial.hint:
        click.echo(f"hint: {trial.hint}", err=True)
