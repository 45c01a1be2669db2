"""An answer may repeat the request, and what it says is logged: without values of the event, and without secrets."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from walrelay.model import Message

_HIDDEN = "***"
_SHORTEST = 4  # characters; what is shorter stands in every text
_RUN = 12  # characters that an answer and a longer value have in common by chance at most
_SHOWN_ANYWAY = {"id", "type", "position"}


def without_echo(text: str, message: Message, secrets: Iterable[str]) -> str:
    """The text with `***` for what it repeats, also where it repeats a part of a long value."""
    hidden = {*secrets, *_header_values(message)}
    try:
        # numbers as they are written
        hidden |= {*_scalars(json.loads(message.value or b"null", parse_int=str, parse_float=str))}
    except RecursionError:
        return _HIDDEN
    except ValueError:
        hidden.add((message.value or b"").decode(errors="replace"))
    for each in sorted(hidden, key=len, reverse=True):
        if len(each) > _RUN:
            text = _without_runs(text, each)
        elif len(each) >= _SHORTEST:
            text = text.replace(each, _HIDDEN)
    return text


def _header_values(message: Message) -> Iterator[str]:
    for name, value in message.headers:
        if name not in _SHOWN_ANYWAY and value is not None:
            yield value.decode(errors="replace")


def _scalars(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for each in value.values():
                yield from _scalars(each)
        case list():
            for each in value:
                yield from _scalars(each)
        case str():
            yield value


def _without_runs(text: str, value: str) -> str:
    """Without what both have in common, where that is long."""
    at = 0
    while at <= len(text) - _RUN:
        end = at + _RUN
        if text[at:end] in value:
            while end < len(text) and text[at : end + 1] in value:
                end += 1
            text = text[:at] + _HIDDEN + text[end:]
            at += len(_HIDDEN)
        else:
            at += 1
    return text
