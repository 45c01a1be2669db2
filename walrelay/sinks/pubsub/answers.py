"""What a status of gRPC says about the messages of a request. Pure: statuses are known by their names."""

import re
from typing import Literal, NamedTuple


class StatusMeaning(NamedTuple):
    """`wait`: the same request is sent again, later. `over`: a new connection is needed, or other credentials.
    `speaks_for_all`: nor would another request be taken now.
    """

    verdict: Literal["refused", "wait", "over"]
    error: str = "refused"
    scope: str = "message"
    hint: str = ""
    speaks_for_all: bool = False


_WAIT = StatusMeaning("wait")
_OVER = StatusMeaning("over")
_REFUSED = StatusMeaning("refused", hint="Look for the message at this position, and at the topic's schema.")
_TOO_LARGE = StatusMeaning("refused", "too_large", hint="Shorten the event, or let it have its payload elsewhere.")
_MEANINGS = {
    "UNAVAILABLE": StatusMeaning("wait", speaks_for_all=True),
    "RESOURCE_EXHAUSTED": _WAIT,
    "ABORTED": _WAIT,
    "INTERNAL": _WAIT,
    "UNKNOWN": _WAIT,
    "CANCELLED": _WAIT,
    "FAILED_PRECONDITION": _WAIT,  # a key of encryption that is disabled, a region that is not allowed
    "INVALID_ARGUMENT": _REFUSED,
    "OUT_OF_RANGE": _REFUSED,
    "NOT_FOUND": StatusMeaning(
        "refused",
        "unknown_topic",
        "topic",
        "Make the topic: `walrelay init --topics`, or correct sink.project or sink.topic.",
    ),
    "PERMISSION_DENIED": StatusMeaning(
        "refused",
        "not_authorized",
        "topic",
        "Grant roles/pubsub.publisher on the topic: gcloud pubsub topics add-iam-policy-binding.",
    ),
}
_SIZE = re.compile(r"message (larger than max|exceeds maximum size)|payload size exceeds", re.IGNORECASE)


def meaning(status: str, text: str) -> StatusMeaning:
    """`text`: what the server says beside the status. What gRPC itself finds too large has the status of a quota."""
    if status in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT") and _SIZE.search(text):
        return _TOO_LARGE
    return _MEANINGS.get(status, _OVER)
