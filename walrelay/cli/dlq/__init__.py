"""`walrelay dlq`: dead letters listed, shown, exported, edited, replayed and discarded."""

import json
from collections import Counter
from typing import Any

import click

from walrelay.cli.chosen import Chosen, one_relay
from walrelay.cli.dlq.editing import edit
from walrelay.cli.dlq.forms import filters, opened, selected
from walrelay.cli.options import operator
from walrelay.cli.progress import count, progress
from walrelay.dead_letter import UNDECODABLE
from walrelay.dead_letters import OPEN, DeadLetterFilter, StoredDeadLetter
from walrelay.dead_letters.editing import difference
from walrelay.dead_letters.elsewhere import letters_elsewhere
from walrelay.dead_letters.forms import summary, whole
from walrelay.dead_letters.replay import ReplayOutcome, dead_letter_replay
from walrelay.errors import Fatal
from walrelay.publish.expiry import ANYWAY, expired_if_known, refuse_expired
from walrelay.telemetry import logs

_HEAD = ("letter", "position", "status", "error", "last met")
_LINE = "{:>7}  {:<20} {:<9}  {:<16}  {}"
_MORE = "         {} for topic {}, key {}, refused {}: {}"
_LONGEST = 200  # characters of a reason
_NAMED = 20  # dead letters that are named one by one


@click.group()
def dlq() -> None:
    """List, show, edit, replay, discard or export the dead letters.

    A dead letter is a message that was refused, or a record that could not be routed or read. It is kept in full:
    `walrelay docs dead-letters`.

    \b
    Example:
      walrelay dlq list
      walrelay dlq replay --topic 'outbox.event.order*'
    """


dlq.add_command(edit)


@dlq.command("list")
@one_relay
@filters
@click.option("--all", "everything", is_flag=True, help="List closed dead letters too: replayed, discarded or skipped.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def listing(relay: Chosen, everything: bool, as_json: bool, **given: Any) -> None:
    """List dead letters in the order of their positions.

    Lists open dead letters unless --all or --status is given.

    \b
    Example:
      walrelay dlq list --status waiting --tenant acme
      walrelay dlq list --error too_large --since 2026-11-21 --json | jq -r .id
    """
    with opened(relay.settings()) as (wiring, table):
        found = selected(wiring, **given)
        for each in letters_elsewhere(table.catalog, wiring.slot, wiring.table):
            click.echo(f"{each.detail}: {each.fix}", err=True)
        ids = table.find(found if everything else found.open)
        if ids and not as_json:
            click.echo(_LINE.format(*_HEAD))
        for stored in table.letters(ids, whole=False):
            click.echo(json.dumps(summary(stored)) if as_json else _lines(stored))
    if not ids:
        click.echo("no dead letters" if everything else "no open dead letters; --all lists the closed ones", err=True)


def _lines(stored: StoredDeadLetter) -> str:
    """Two lines; the second may be longer than a terminal is wide."""
    letter, origin = stored.letter, stored.letter.origin
    key = "none" if letter.key is None else letter.key.decode("utf-8", "replace")
    last = f"{stored.last_at.astimezone():%Y-%m-%d %H:%M:%S}"
    reason = " ".join(letter.reason.split())
    reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}..."
    first = _LINE.format(stored.id, origin.position, letter.status, letter.error, last)
    often = count(letter.attempts, "time") + (", edited" if stored.edit else "")
    return f"{first}\n{_MORE.format(origin.record_id or 'no id', letter.topic or 'none', key, often, reason)}"


@dlq.command()
@one_relay
@click.argument("id_", metavar="ID")
@click.option(
    "--value",
    "only_value",
    is_flag=True,
    help="Print only the message's value, or the content that could not be read, byte for byte.",
)
def show(relay: Chosen, id_: str, only_value: bool) -> None:
    """Show dead letters with their record and message.

    ID is the dead letter's number, or the id of the record.

    \b
    Example:
      walrelay dlq show 17
      walrelay dlq show 17 --value | jq
    """
    with opened(relay.settings()) as (_, table):
        ids = table.find(DeadLetterFilter(id=id_))
        if not ids:
            raise Fatal(f"there is no dead letter {id_!r}", hint="`walrelay dlq list` lists them.")
        for stored in table.letters(ids):
            if only_value:
                message, raw = stored.letter.message, stored.letter.raw
                click.echo((message.value if message else raw) or b"")
                continue
            click.echo(json.dumps(whole(stored), indent=2, ensure_ascii=False))
            _show_edit(stored)
            if stored.letter.status in OPEN:
                if stored.letter.error == UNDECODABLE:
                    click.echo(
                        "it cannot be published, because it cannot be read; the application may emit the event again",
                        err=True,
                    )
                else:
                    click.echo(f"to publish it: walrelay dlq replay --id {stored.id}", err=True)
                    click.echo(f"to edit it first: walrelay dlq edit {stored.id} --reason '...'", err=True)
                click.echo(f"to give it up: walrelay dlq discard --id {stored.id} --reason '...'", err=True)


def _show_edit(stored: StoredDeadLetter) -> None:
    """On stderr: stdout has the JSON alone."""
    if stored.edit is not None and stored.letter.record is not None:
        at = f"{stored.edit.at.astimezone():%Y-%m-%d %H:%M:%S}"
        click.echo(f"edited by {stored.edit.by} at {at}: {stored.edit.reason}", err=True)
        click.echo(difference(stored.letter.record, stored.edit.record), nl=False, err=True)


@dlq.command()
@one_relay
@filters
@click.option("--instead", metavar="TOPIC", help="Takes the place of a topic that the rules no longer have.")
@click.option(ANYWAY, "even_expired", is_flag=True, help="Also to topics that delete messages of that age at once.")
@click.option("--dry-run", is_flag=True, help="List what would be published, and publish nothing.")
def replay(relay: Chosen, dry_run: bool, instead: str | None, even_expired: bool, **given: Any) -> None:
    """Publish dead letters, and those that are blocked behind them.

    Publishes open dead letters unless --status is given.

    The current settings route the record, as it is or was edited, so a correction applies; id and position stay the
    same, and a header `replayed` is added. A dead letter is closed when the broker has acknowledged it; one that is
    refused again stays open, and so do later ones of the same key. The relay may be running.

    Each is published to the topic that refused it. One whose topic the rules no longer have stays open, unless
    --instead names another topic of its record.

    \b
    Example:
      walrelay dlq replay --topic outbox.event.order --dry-run
      walrelay dlq replay --error not_authorized
    """
    settings = relay.settings()
    logs.configure(settings.log.format, settings.log.level)
    with opened(settings) as (wiring, table):
        ids, statuses = table.find_to_replay(selected(wiring, **given))
        replaying = dead_letter_replay(wiring, table, operator(), instead, even_expired=even_expired)
        if dry_run:
            for stored in table.letters(ids):
                click.echo(_short(stored))
            click.echo(f"{len(ids)} would be replayed", err=True)
            if wiring.sink.may_expire and not even_expired:
                refuse_expired(expired_if_known(wiring.sink, replaying.oldest(ids)))
            return
        outcomes = list(progress(replaying.replay(ids, statuses), len(ids), "replaying"))
    _report(outcomes)


def _report(outcomes: list[ReplayOutcome]) -> None:
    counts = Counter(each.outcome for each in outcomes)
    click.echo(f"{counts['replayed']} replayed, {counts['refused']} refused again, {counts['left']} left as they are")
    for each in [each for each in outcomes if each.outcome != "replayed"][:_NAMED]:
        click.echo(f"dead letter {each.id} {each.outcome}: {each.why}", err=True)
    if counts["refused"]:
        raise Fatal(
            f"{count(counts['refused'], 'dead letter was', 'dead letters were')} refused again, and still waiting",
            hint="`walrelay dlq list --status waiting` has the reasons.",
        )


def _short(stored: StoredDeadLetter) -> str:
    letter, origin = stored.letter, stored.letter.origin
    edited = "  (edited)" if stored.edit else ""
    return (
        f"{stored.id:>7}  {origin.position:<20} {letter.status:<9}  {letter.topic or '':<28} {origin.record_id}{edited}"
    )


@dlq.command()
@one_relay
@filters
@click.option("--reason", required=True, help="The reason; it is stored with the dead letters, your name and the time.")
@click.option("--dry-run", is_flag=True, help="Say how many there are, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(relay: Chosen, reason: str, dry_run: bool, yes: bool, **given: Any) -> None:
    """Give up open dead letters. They stay in the table as discarded, with who, when and why.

    \b
    Example:
      walrelay dlq discard --id 17 --reason 'test data'
      walrelay dlq discard --topic 'outbox.event.audit*' --until 2026-11-01 --reason 'retention is over' --yes
    """
    with opened(relay.settings()) as (wiring, table):
        ids = table.find_to_discard(selected(wiring, **given))
        if not ids and given["id_"] is not None:
            raise Fatal(f"there is no open dead letter {given['id_']!r}", hint="`walrelay dlq list` lists them.")
        if dry_run or not ids:
            click.echo(count(len(ids), "open dead letter") + (" would be discarded" if ids else ""))
            return
        if not yes:
            question = f"Discard {count(len(ids), 'dead letter')}? They will not be published."
            click.confirm(question, abort=True, err=True)
        done = table.discard(ids, operator(), reason)
    click.echo(f"{done} discarded")
    if left := len(ids) - done:
        click.echo(f"{count(left, 'dead letter was', 'dead letters were')} closed meanwhile, and stay so", err=True)


@dlq.command()
@one_relay
@filters
@click.option("-o", "--output", type=click.File("w", atomic=True), default="-", help="A file instead of stdout.")
def export(relay: Chosen, output: Any, **given: Any) -> None:
    """Write complete dead letters as JSON lines, and change nothing.

    Content that is not UTF-8 is written as {"base64": ...}. `message` has the format of the stdout sink.

    \b
    Example:
      walrelay dlq export --status waiting > waiting.jsonl
    """
    with opened(relay.settings()) as (wiring, table):
        ids = table.find(selected(wiring, **given))
        for stored in progress(table.letters(ids), len(ids), "exporting"):
            output.write(json.dumps(whole(stored), ensure_ascii=False) + "\n")
    click.echo(count(len(ids), "dead letter"), err=True)
