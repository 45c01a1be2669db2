"""A dead letter: what is kept of a message that was refused or a row that could not be read, and its forms in JSON.

Text is in JSON as it is; what is not UTF-8 is {"base64": "..."}. Both forms can be read back, to the byte.
"""

import json
from base64 import b64decode, b64encode
from typing import Any, NamedTuple

from walrelay.lsn import LSN
from walrelay.model import ANY_PARTITION, Message, OutboxRecord, RecordPosition

WHOLE_TRANSACTION = -1
"""The ordinal that means all records of a transaction."""

UNDECODABLE = "undecodable"
"""The error of what is no outbox record: its letter has neither record nor message, but what it holds."""

_BYTES = frozenset({"payload", "headers"})
_NUMBERS = frozenset({"commit_lsn", "ordinal", "committed_at"})


class Origin(NamedTuple):
    """The place of a message: its record's position and id, and its number among those of the record by the rules of
    the time. Which message it is, its record and its destination say: `walrelay.dead_letters.identity`.
    """

    commit_lsn: LSN
    ordinal: int
    number: int
    record_id: str

    @property
    def position(self) -> str:
        """In the form of the message's header; without an ordinal for a whole transaction."""
        return str(RecordPosition(self.commit_lsn, None if self.ordinal == WHOLE_TRANSACTION else self.ordinal))


class DeadLetter(NamedTuple):
    """`topic`: None if it got none. `attempts`: how often it was offered; 0: never, see `reason`."""

    origin: Origin
    status: str  # waiting, blocked, replayed, discarded or skipped
    error: str
    reason: str
    topic: str | None = None
    key: bytes | None = None
    record: OutboxRecord | None = None
    message: Message | None = None
    raw: bytes | None = None
    attempts: int = 1

    @property
    def number(self) -> int:
        """Its place among the messages of its record, by the rules of the time."""
        return self.origin.number


def record_json(record: OutboxRecord) -> str:
    """All fields by name; commit_lsn as PostgreSQL writes it; `columns` only if there are any."""
    members = record._asdict()
    columns = {name: shown(value) for name, value in members.pop("columns").items()}
    members = {name: value if name in _NUMBERS else shown(value) for name, value in members.items()}
    members["commit_lsn"] = str(record.commit_lsn)
    return json.dumps(members | ({"columns": columns} if columns else {}))


def record_from(members: dict[str, Any]) -> OutboxRecord:
    """The record of `record_json`, once parsed."""
    columns = {name: _text(_bytes(value)) for name, value in members.get("columns", {}).items()}
    values = {name: members[name] for name in OutboxRecord._fields if name != "columns"}
    for name in values.keys() - _NUMBERS:
        values[name] = _bytes(values[name]) if name in _BYTES else _text(_bytes(values[name]))
    return OutboxRecord(**{**values, "commit_lsn": LSN.parse(members["commit_lsn"])}, columns=columns)


def message_json(message: Message) -> str:
    """In the form that the stdout sink prints: topic, key, value, headers, timestamp_ms, and the partition if it has
    one.
    """
    topic, key, value, headers, timestamp_ms, partition = message
    members: dict[str, Any] = {
        "topic": shown(topic),
        "key": shown(key),
        "value": shown(value),
        "headers": [[name, shown(content)] for name, content in headers],
        "timestamp_ms": timestamp_ms,
    }
    return json.dumps(members if partition == ANY_PARTITION else members | {"partition": partition})


def message_from(members: dict[str, Any]) -> Message:
    """The message of `message_json`, once parsed."""
    headers = [(name, _bytes(content)) for name, content in members["headers"]]
    topic = _text(_bytes(members["topic"])) or ""
    key, value, partition = _bytes(members["key"]), _bytes(members["value"]), members.get("partition", ANY_PARTITION)
    return Message(topic, key, value, headers, members["timestamp_ms"], partition)


def shown(value: str | bytes | None) -> str | dict[str, str] | None:
    """Text where it is UTF-8, else {"base64": "..."}; None for None."""
    if value is None:
        return None
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(raw).decode()}


def _bytes(value: str | dict[str, str] | None) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else b64decode(value["base64"])


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")
