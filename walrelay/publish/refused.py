"""The error that a refused message stops the relay with, where nothing else becomes of it."""

from collections.abc import Iterable

from walrelay.errors import Refused
from walrelay.lsn import LSN
from walrelay.model import RecordPosition, Refusal

_UNKNOWN = LSN(2**64 - 1), 0  # behind every place


def refused(refusals: Iterable[Refusal]) -> Refused:
    """The error that stops the relay for the first of them: which record, where, why, and what to do."""
    first = min(refusals, key=lambda refusal: _place(refusal) or _UNKNOWN)
    headers = _headers(first)
    return Refused(
        f"record {headers.get('id', '?')} at {headers.get('position', '?')} was refused for topic"
        f" {first.message.topic!r}: {first.reason}",
        hint=first.hint,
        place=_place(first),
    )


def _place(refusal: Refusal) -> tuple[LSN, int] | None:
    try:
        lsn, ordinal = RecordPosition.parse(_headers(refusal)["position"])
    except (ValueError, KeyError):
        return None
    return None if ordinal is None else (lsn, ordinal)


def _headers(refusal: Refusal) -> dict[str, str]:
    return {name: (value or b"").decode(errors="replace") for name, value in refusal.message.headers}
