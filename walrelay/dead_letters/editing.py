"""Correcting the record of a dead letter before it is replayed. The original stays, and with it the event's id, its
position, and the dead letter's place in the order of the key that was refused.
"""

import json
from base64 import b64decode
from difflib import unified_diff
from typing import Any, NamedTuple

from walrelay.dead_letter import UNDECODABLE, record_json
from walrelay.dead_letters.filtering import OPEN, DeadLetterFilter
from walrelay.dead_letters.forms import record_shown
from walrelay.dead_letters.handling import DeadLetterEdit, DeadLetterTable, StoredDeadLetter
from walrelay.dead_letters.identity import stored_text
from walrelay.dead_letters.republishing import Republishing, order_keys
from walrelay.dead_letters.store import TABLE, meaning
from walrelay.errors import Fatal, Undecodable, Unroutable
from walrelay.model import Message, OutboxRecord
from walrelay.postgres.connect import Connection
from walrelay.wiring import Wiring

_FIXED = ("commit_lsn", "ordinal", "committed_at", "id")
_JSON = ("payload", "headers")
_LARGE = 200_000  # characters; JSON that is longer stays one line, because differences of so many lines take seconds
_EDITED = ", ".join(name for name in OutboxRecord._fields if name not in _FIXED)


class EditTrial(NamedTuple):
    """What an edit would make of a dead letter by today's rules. `difference`: from the original, as a unified diff.
    `refusal`: why it could not be published, with `hint`; `notices`: what the operator should know before it is stored.
    """

    record: OutboxRecord
    difference: str
    messages: tuple[Message, ...]
    refusal: str = ""
    hint: str = ""
    notices: tuple[str, ...] = ()


def dead_letter_to_edit(table: DeadLetterTable, id_: str | int) -> StoredDeadLetter | None:
    """By its number, or by the id of the record; None if there is none. Fatal where nothing of it can be edited."""
    wanted = DeadLetterFilter(ids=[id_]) if isinstance(id_, int) else DeadLetterFilter(id=id_, limit=2)
    found = [*table.letters(table.find(wanted))]
    if not found:
        return None
    if len(found) > 1:
        numbers = ", ".join(str(each.id) for each in found)
        raise Fatal(f"{id_!r} has several dead letters: {numbers}, ...", hint="Name one of them by its number.")
    _refuse(table, found[0])
    return found[0]


def edited_record(original: OutboxRecord, given: object) -> OutboxRecord:
    """The original with the fields that are given, in the form of `walrelay dlq show`; payload and headers may be JSON.
    Fatal for anything else, and for another id or position.
    """
    try:
        if not isinstance(given, dict):
            raise ValueError("it is not a JSON object")
        shown = record_shown(original)
        if strange := sorted(given.keys() - {*OutboxRecord._fields}):
            raise ValueError(f"{strange[0]!r} is not a field of it")
        for name in _FIXED:
            if name in given and given[name] not in (shown[name], getattr(original, name)):
                raise Fatal(
                    f"{name} cannot be edited: it stays {shown[name]}",
                    hint=f"Id, position and time of the commit say which event it is. Can be edited: {_EDITED}.",
                )
        changes: dict[str, Any] = {
            name: _field(name, given[name]) for name in given if name not in (*_FIXED, "columns")
        }
        if "columns" in given:
            columns = dict(given["columns"] or {})
            changes["columns"] = {_stored_name(name): _column(name, value) for name, value in columns.items()}
        return original._replace(**changes)
    except (ValueError, TypeError, AttributeError, RecursionError) as cause:
        raise Fatal(
            f"this is not a record: {cause}",
            hint="Write it as `walrelay dlq show ID | jq .record` prints it; payload and headers may be JSON.",
        ) from None


def as_text(record: OutboxRecord) -> str:
    """For an editor, and for differences: JSON in payload and headers as such, where that is the same to the byte."""
    shown = record_shown(record)
    for name in _JSON:
        shown[name] = _expanded(shown[name])
    return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"


def difference(original: OutboxRecord, edited: OutboxRecord, *, back: bool = False) -> str:
    """As a unified diff; empty where they are the same. `back`: from what was edited to the original."""
    sides = [("original", as_text(original).splitlines()), ("edited", as_text(edited).splitlines())]
    (before, old), (after, new) = reversed(sides) if back else sides
    return "".join(f"{line}\n" for line in unified_diff(old, new, before, after, lineterm=""))


class DeadLetterEditing:
    """Tries an edit, stores it, takes it back. A replay that has the dead letter locked is waited for, as long as the
    table's patience lasts.
    """

    def __init__(self, wiring: Wiring, table: DeadLetterTable) -> None:
        self._wiring, self._table = wiring, table

    def tried(self, stored: StoredDeadLetter, given: object) -> EditTrial:
        """Stores nothing. Fatal where it is no record, or nothing is edited."""
        original = stored.letter.record
        assert original is not None, "it has a record to edit"
        record = edited_record(original, given)
        if record == original:
            raise Fatal(
                "nothing is edited: this is the record as it was",
                hint="To restore it: `walrelay dlq edit ID --take-back`." if stored.edit else "",
            )
        told = difference(original, record)
        republishing = Republishing(self._wiring.router(self._table.catalog).route)
        as_edited = stored._replace(edit=DeadLetterEdit(record, stored.last_at, "", ""))
        try:
            messages = tuple(republishing.messages(as_edited))
        except (Unroutable, Undecodable) as why:
            notice = f"a replay would refuse it as edited: {why}"
            return EditTrial(record, told, (), str(why), why.hint, (notice,))
        return EditTrial(record, told, messages, notices=tuple(self._notices(stored, messages)))

    def store(self, stored: StoredDeadLetter, record: OutboxRecord, by: str, reason: str) -> StoredDeadLetter:
        """In place of an earlier edit. Fatal if somebody edited or closed it since it was read."""
        return self._set(stored, (record_json(record), stored_text(by), stored_text(reason)))

    def take_back(self, stored: StoredDeadLetter) -> StoredDeadLetter:
        """The record is what it was. Fatal where it was not edited."""
        if stored.edit is None:
            raise Fatal(f"dead letter {stored.id} is not edited: its record is the original")
        return self._set(stored, None)

    def _set(self, stored: StoredDeadLetter, edit: tuple[str, str, str] | None) -> StoredDeadLetter:
        connection: Connection = self._table.catalog.connection
        with meaning(connection), connection.transaction():
            connection.execute(f"SELECT FROM {TABLE} WHERE id = %s FOR UPDATE".encode(), (stored.id,))
            now = self._again(stored)
            _refuse(self._table, now)
            if now.edit != stored.edit:
                who = f"by {now.edit.by}: {now.edit.reason}" if now.edit else "back to the original"
                raise Fatal(
                    f"dead letter {stored.id} was edited meanwhile, {who}", hint="Look at it and edit it again."
                )
            connection.execute(
                f"UPDATE {TABLE} SET edited_record = %s::json, edited_by = %s, edit_reason = %s,"
                " edited_at = CASE WHEN %s THEN clock_timestamp() END WHERE id = %s".encode(),
                (*(edit or (None, None, None)), edit is not None, stored.id),
            )
        return self._again(stored)

    def _again(self, stored: StoredDeadLetter) -> StoredDeadLetter:
        for found in self._table.letters([stored.id]):
            return found
        raise Fatal(f"dead letter {stored.id} was deleted meanwhile")

    def _notices(self, stored: StoredDeadLetter, messages: tuple[Message, ...]) -> list[str]:
        letter = stored.letter
        own = None if letter.topic is None or letter.key is None else (letter.topic, letter.key)
        new = sorted(order_keys(messages) - {own})
        if not new or own is None:
            return []
        names = " and ".join(f"topic {topic}, key {key.decode('utf-8', 'replace')}" for topic, key in new)
        notices = [f"it is published late for {names}, after messages that were committed later"]
        if behind := len(self._table.blocked_behind([stored.id])):
            was = f"topic {own[0]}, key {own[1].decode('utf-8', 'replace')}"
            letters = "dead letter waits" if behind == 1 else "dead letters wait"
            notices.append(f"{behind} {letters} behind it for {was}, until it is replayed or discarded")
        if self._wiring.policy.block_key:
            for topic, key in new:
                if (first := self._table.first_open_before(stored.place, topic, key)) is not None:
                    notices.append(f"it is not published before dead letter {first} of that key is closed")
        return notices


def _refuse(table: DeadLetterTable, stored: StoredDeadLetter) -> None:
    """Fatal where there is nothing that can be edited."""
    letter, name = stored.letter, f"dead letter {stored.id}"
    if not table.keeps_edits:
        raise Fatal(
            f"the table {TABLE} is of an earlier version, which has no room for edits",
            hint="`walrelay init` adds the columns; existing objects stay as they are.",
        )
    if letter.status not in OPEN:
        raise Fatal(
            f"{name} is {letter.status}: only what is waiting or blocked can be edited",
            hint="Its record was used, or given up, as it is; `walrelay dlq list` lists those that can be edited.",
        )
    if letter.error == UNDECODABLE:
        raise Fatal(
            f"{name} could not be read, so it has no record that could be edited",
            hint="Let its writer emit the event again, then discard it.",
        )
    if letter.record is None:
        raise Fatal(
            f"{name} has no record that could be edited: an earlier version stored its message alone",
            hint="It can be replayed as that message, or discarded; or let its writer emit the event again.",
        )


def _field(name: str, value: Any) -> str | bytes | None:
    """JSON in payload and headers becomes text as PostgreSQL writes jsonb."""
    if name not in _JSON:
        return _column(name, value)
    if isinstance(value, dict | list | int | float) and not _is_base64(value):
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return _bytes(name, value)


def _column(name: str, value: Any) -> str | None:
    raw = _bytes(name, value)
    return None if raw is None else raw.decode("utf-8", "surrogateescape")


def _stored_name(name: str) -> str:
    """ValueError for one that no JSON can hold: half of a surrogate pair."""
    name.encode()
    return name


def _bytes(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if _is_base64(value):
        return b64decode(value["base64"], validate=True)
    if not isinstance(value, str):
        raise ValueError(f"{name} is text or null")
    return value.encode()


def _is_base64(value: Any) -> bool:
    """The form of what is not UTF-8."""
    return isinstance(value, dict) and value.keys() == {"base64"}


def _expanded(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > _LARGE:
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if not isinstance(parsed, dict | list) or _is_base64(parsed):
        return value  # which would be read as something else
    return parsed if json.dumps(parsed, ensure_ascii=False) == value else value
