"""What an answer says about its message: durable, refused for a reason, or to be asked for again. Pure."""

from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from http import HTTPStatus
from typing import Literal, NamedTuple

LONGEST_PAUSE = 3600.0
"""Seconds: an endpoint that asks for a longer pause is asked again after that."""

_AGAIN = {408, 421, 423, 425, 429}  # statuses below 500 that say nothing about the message


class Answer(NamedTuple):
    """`wait`: nothing is said about the message. `speaks_for_all`: nor would another one be taken now. `pause`: so many
    seconds, if the endpoint asks for that.
    """

    verdict: Literal["durable", "refused", "wait"]
    error: str = ""
    scope: str = "message"
    hint: str = ""
    speaks_for_all: bool = False
    pause: float | None = None


_DURABLE = Answer("durable")
_REFUSED = Answer("refused", "refused", hint="Look into the receiver's log for this id.")
_NOT_AUTHORIZED = Answer(
    "refused",
    "not_authorized",
    "sink",
    "Correct the credentials: sink.bearer_token, sink.headers, sink.signing_secrets.",
)
_GONE = Answer(
    "refused",
    "endpoint_gone",
    "topic",
    "The endpoint wants no more events, for good: end its route, or correct sink.url.",
)
_MOVED = Answer(
    "refused", "redirected", "topic", "Set sink.url to where the endpoint is now: walrelay follows no redirect."
)
_OTHERS = {
    401: _NOT_AUTHORIZED,
    403: _NOT_AUTHORIZED,
    404: _REFUSED._replace(error="unknown_endpoint", hint="Correct sink.url, or make the endpoint."),
    405: _REFUSED._replace(error="unknown_endpoint", hint="Correct sink.url: the endpoint takes no POST."),
    410: _GONE,
    413: _REFUSED._replace(error="too_large", hint="Raise the receiver's limit, or shorten the event."),
    431: _REFUSED._replace(error="too_large", hint="Raise the receiver's limit, or shorten the headers."),
}


def answer(status: int, headers: Mapping[str, str], now: float) -> Answer:
    """`headers`: of the answer, by names that are found in any case. `now`: Unix time in seconds."""
    if 200 <= status < 300:
        return _DURABLE
    pause = _retry_after(headers, now)
    if status in _AGAIN or status >= 500 or status < 200 or (status == 409 and pause is not None):
        return Answer("wait", speaks_for_all=status in (429, 503) or pause is not None, pause=pause)
    if status < 400:
        return _MOVED
    return _OTHERS.get(status, _REFUSED)


def phrase(status: int) -> str:
    """`404 Not Found`: by the standard, as the receiver's own words could be anything."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds; None where the header is missing or is neither seconds nor a date."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_PAUSE)
    asked = _date(text)
    if asked is None:
        return None
    here = _date(headers.get("Date", ""))  # the receiver's clock need not be right
    return min(max(asked - (now if here is None else here), 0.0), LONGEST_PAUSE)


def _date(text: str) -> float | None:
    """Unix time of a date of HTTP in each of its three forms. One without a zone is in UTC, whatever the machine's."""
    try:
        parsed = parsedate_tz(text)
        return None if parsed is None else float(mktime_tz((*parsed[:9], parsed[9] or 0)))
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
