"""What the sections of the settings file share, and values beyond their type: names as PostgreSQL takes them."""

import re
from string import Formatter

from pydantic import BaseModel, ConfigDict

from walrelay.postgres.dsn import conninfo_fault
from walrelay.route import FIELDS


class Misplaced(ValueError):
    """What a check of several settings together found; `path` is where to look, within the section that checked."""

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(text)
        self.path = path


class Section(BaseModel):
    """Nothing can be changed, no key is ignored, no error quotes what was given: it may hold a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)


_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *([a-z]+)")
_LONGEST = 100 * 366 * 86_400.0  # seconds
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def connection_string(text: str) -> str:
    """Something that libpq understands. Never shown in an error: it may hold the password."""
    if re.match(r"postgres(ql)?://", text) or "=" in text.partition("://")[0]:
        if fault := conninfo_fault(text):
            raise ValueError(f"is not a connection string that libpq understands: {fault}")
        return text
    if not text.strip():
        raise ValueError("is empty; write postgresql://user@host/database")
    if text.startswith("postgres") and "://" in text:
        raise ValueError("libpq takes no driver in the scheme; write postgresql://user@host/database")
    raise ValueError("is not a libpq connection string; write postgresql://user@host/database")


def slot_name(text: str) -> str:
    """A replication slot's name, by PostgreSQL's rule."""
    if not _SLOT.fullmatch(text):
        raise ValueError(f"{text!r} is no slot name: 1 to 63 of the characters a-z, 0-9 and _")
    return text


def duration(text: str) -> float:
    """Seconds of `7d`, `12h`, `90 min`, `1.5h`, `30s`, `2w`."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS or not float(match[1]):
        raise ValueError(f"{text!r} is no duration: write a number and s, m, h, d or w, as in 7d")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is longer than a century")
    return seconds


def topic_template(text: str) -> str:
    """A template whose fields are those of walrelay.route by name and nothing else: str.format can reach attributes."""
    if not text.strip():
        raise ValueError("is empty; write a topic, as in outbox.event.{aggregate_type}")
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}; a literal brace is doubled: {{{{ or }}}}") from None
    for _, field, spec, conversion in pieces:
        if field is not None:
            _check_field(field, spec, conversion)
    return text


def _check_field(field: str, spec: str | None, conversion: str | None) -> None:
    if field not in FIELDS:
        known = ", ".join(f"{{{known}}}" for known in FIELDS)
        raise ValueError(f"{{{field}}} is not a field of the template; known are {known}")
    if spec or conversion:
        raise ValueError(f"{{{field}}} stands alone in its braces, without ':' and '!'")
