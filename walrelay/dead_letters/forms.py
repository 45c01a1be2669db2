"""A stored dead letter as JSON, for people and programs."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from walrelay.dead_letter import message_json, record_json, shown
from walrelay.dead_letters.handling import StoredDeadLetter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def summary(stored: StoredDeadLetter) -> dict[str, Any]:
    """Without record and message."""
    letter = stored.letter
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
    }


def whole(stored: StoredDeadLetter) -> dict[str, Any]:
    """The dead letter as JSON, with record and message; bytes that are not UTF-8 as {"base64": ...}."""
    letter = stored.letter
    record = letter.record and json.loads(record_json(letter.record))
    if isinstance(record, dict) and isinstance(record.get("committed_at"), int):
        record["committed_at"] = (_EPOCH + timedelta(microseconds=record["committed_at"])).isoformat()
    return {
        **summary(stored),
        "record": record,
        "message": letter.message and json.loads(message_json(letter.message)),
        "raw": shown(letter.raw),
    }
