"""Headers that HTTP can carry as they are, and those that a row must not have. Pure.

A header is never altered: what clients, proxies or servers would change, drop or obey is refused beforehand.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote

from walrelay.model import Message
from walrelay.sinks.hosting import Misfit

NAME = re.compile(r"[A-Za-z0-9-]{1,255}")
"""nginx and others drop a name with an underscore, and say nothing."""

VALUE = re.compile(r"(?![ \t])[^\0-\x08\x0a-\x1f\x7f\ud800-\udfff]*(?<![ \t])")
"""Blanks around it would go, and a line's end would begin another header."""

_LONGEST = 8_000  # bytes of a header: what nginx, Apache and others take in a line
_ALL = 16_000  # bytes of all of them

_RESERVED = {
    *("authorization", "connection", "cookie", "cookie2", "date", "expect", "forwarded", "host", "http2-settings"),
    *("keep-alive", "origin", "range", "referer", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade"),
    *("user-agent", "via", "x-http-method", "x-http-method-override", "x-method-override", "x-original-url"),
    *("x-real-ip", "x-rewrite-url", "accept-encoding"),
}
_RESERVED_PREFIXES = ("content-", "if-", "proxy-", "sec-", "webhook-", "x-forwarded-")
_CONTENT_TYPE = "content-type"
_EVENT = "ce_specversion"  # a message in an envelope of CloudEvents, in binary mode
_ATTRIBUTE = "ce_"
_AS_THEY_ARE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_RENAME = "Rename or remove it (`headers` in a rule)."


def is_reserved(name: str) -> bool:
    """Whether HTTP, a proxy or the signature gives that header its meaning. `name` in small letters."""
    return name in _RESERVED or name.startswith(_RESERVED_PREFIXES)


class RequestHeaders:
    """Makes the headers of requests. `own`: names that the settings take, in small letters."""

    def __init__(self, key_header: str | None, content_type: str, own: Iterable[str]) -> None:
        self._key_header, self._content_type, self._own = key_header, content_type, frozenset(own)

    def of(self, message: Message) -> list[tuple[str, str]] | Misfit:
        """Those of the row, of its key and its content type; or why HTTP cannot have them unaltered."""
        headers = message.headers
        if self._key_header is not None and message.key is not None:
            headers = [(self._key_header, message.key), *headers]
        is_event = any(name == _EVENT for name, _ in headers)
        made: list[tuple[str, str]] = []
        seen: set[str] = set()
        size = 0
        for name, value in headers:
            is_attribute = is_event and name.startswith(_ATTRIBUTE)
            if is_attribute:
                name = f"ce-{name.removeprefix(_ATTRIBUTE)}"
            text = _text(value)
            lowered = name.lower()
            if fault := self._fault(name, lowered, text, is_attribute, lowered in seen):
                return Misfit(fault, _RENAME)
            assert text is not None
            if is_attribute:  # as the HTTP binding of CloudEvents has it
                text = quote(text, safe=_AS_THEY_ARE)
            line = len(name) + len(text.encode()) + 4
            size += line
            if line > _LONGEST or size > _ALL:
                return Misfit(
                    f"up to {name[:40]!r}, of {line:,} bytes, the headers have {size:,}: servers take {_LONGEST:,} in"
                    f" one and {_ALL:,} in all",
                    "Shorten or remove headers.",
                )
            seen.add(lowered)
            made.append((name, text))
        if _CONTENT_TYPE not in seen:
            made.append((_CONTENT_TYPE, self._content_type))
        return made

    def _fault(self, name: str, lowered: str, text: str | None, is_attribute: bool, twice: bool) -> str:
        if not NAME.fullmatch(name):
            return f"{name[:40]!r} is no name for a header of HTTP: letters, digits and hyphens pass everywhere"
        if (lowered != _CONTENT_TYPE and is_reserved(lowered)) or lowered in self._own:
            return f"the header {name!r} is HTTP's own, or walrelay's"
        if twice:
            return f"the header {name!r} is there twice, and HTTP makes one of them"
        if text is None:
            return f"the header {name!r} has no value, or one that is not UTF-8"
        if not is_attribute and not VALUE.fullmatch(text):
            return f"the header {name!r} has control characters, or blanks around its value"
        return ""


def event_id(message: Message) -> str | None:
    """The record's id; None where the message does not say it."""
    for name, value in message.headers:
        if name == "id" and value:
            return _text(value)
    return None


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
