"""A stored dead letter as JSON, for people and programs."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from walrelay.dead_letter import message_json, record_json, shown
from walrelay.dead_letters.handling import StoredDeadLetter
from walrelay.model import OutboxRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def summary(stored: StoredDeadLetter) -> dict[str, Any]:
    """Without record and message."""
    letter, edit = stored.letter, stored.edit
    return {
        "letter": stored.id,
        "position": letter.origin.position,
        "number": letter.origin.number,
        "status": letter.status,
        "error": letter.error,
        "reason": letter.reason,
        "topic": letter.topic,
        "key": shown(letter.key),
        "id": letter.origin.record_id,
        "attempts": letter.attempts,
        "first_at": stored.first_at.isoformat(),
        "last_at": stored.last_at.isoformat(),
        "slot": stored.slot,
        "sink": stored.sink,
        "closed_at": stored.closed_at and stored.closed_at.isoformat(),
        "closed_by": stored.closed_by,
        "closed_why": stored.closed_why,
        "edited": edit is not None,
        "edited_by": edit and edit.by,
        "edited_at": edit and edit.at.isoformat(),
        "edit_reason": edit and edit.reason,
    }


def whole(stored: StoredDeadLetter) -> dict[str, Any]:
    """The dead letter as JSON, with record and message; bytes that are not UTF-8 as {"base64": ...}."""
    letter = stored.letter
    return {
        **summary(stored),
        "record": letter.record and record_shown(letter.record),
        "edited_record": stored.edit and record_shown(stored.edit.record),
        "message": letter.message and json.loads(message_json(letter.message)),
        "raw": shown(letter.raw),
    }


def record_shown(record: OutboxRecord) -> dict[str, Any]:
    """As `record_json` has it, with a time that people can read."""
    members: dict[str, Any] = json.loads(record_json(record))
    committed_at = _EPOCH + timedelta(microseconds=record.committed_at)
    return members | {"committed_at": committed_at.isoformat()}
