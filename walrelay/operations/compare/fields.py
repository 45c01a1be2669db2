"""A value that stands somewhere in a message: in a header, in the payload, or as the key. Pure."""

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

from walrelay.publish import TopicMessage

_MICROSECONDS = 10**14  # a larger number is of microseconds since 1970; of milliseconds it would be after the year 5000
_SECONDS = 10**11  # a smaller one is of seconds; of milliseconds it would be before 1974


class ComparedField(NamedTuple):
    """`header.NAME`, `payload.NAME.NAME` or `key`."""

    kind: str
    path: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ComparedField":
        """ValueError if it is none of these."""
        kind, _, rest = text.partition(".")
        if text == "key":
            return cls("key")
        if kind == "header" and rest:
            return cls(kind, (rest,))  # a header's name may have dots
        if kind == "payload" and all(rest.split(".")):
            return cls(kind, tuple(rest.split(".")))
        raise ValueError(f"{text!r} is neither header.NAME nor payload.NAME nor key")

    def of(self, message: TopicMessage) -> str | None:
        """Its text; None if the message does not have it."""
        if self.kind == "key":
            return _text(message.key)
        if self.kind == "header":
            return next((_text(value) for name, value in message.headers if name == self.path[0]), None)
        try:
            value = json.loads(message.value or b"null")
        except (ValueError, RecursionError):
            return None
        for name in self.path:
            value = value.get(name) if isinstance(value, dict) else None
        return _printed(value)


def milliseconds(text: str | None) -> int | None:
    """A time as ISO 8601 (without a zone: UTC), or as a number of seconds, milliseconds or microseconds since 1970."""
    try:
        number = float(text or "")
        return int(number * 1000 if number < _SECONDS else number / 1000 if number > _MICROSECONDS else number)
    except (ValueError, OverflowError):
        pass
    try:
        time = datetime.fromisoformat(text or "")
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def _printed(value: Any) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    return value if isinstance(value, str) else json.dumps(value)
