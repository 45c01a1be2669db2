"""Which texts lead to a queue. Pure."""

import re
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo|[A-Za-z0-9_-]{1,80}")
_ARN = re.compile(r"arn:[a-z-]+:sqs:([a-z0-9-]+):(\d{12}):([^:/]+)")
_URL = re.compile(r"https?://[^\s/]+/(?:[^\s]*/)?([^\s/]+)")


def queue_fault(text: str) -> str:
    """Why that is no queue; empty if it may be one."""
    found = _ARN.fullmatch(text)
    found_url = _URL.fullmatch(text)
    name = found[3] if found else found_url[1] if found_url else text
    if not _NAME.fullmatch(name):
        return "a queue's name has 1 to 80 letters, digits, hyphens and underscores, and may end with .fifo"
    return ""


def is_url(text: str) -> bool:
    return _URL.fullmatch(text) is not None


def lookup(text: str) -> dict[str, Any]:
    """What GetQueueUrl is asked for a name or ARN."""
    arn = _ARN.fullmatch(text)
    return {"QueueName": text} if arn is None else {"QueueName": arn[3], "QueueOwnerAWSAccountId": arn[2]}
