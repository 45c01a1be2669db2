"""Which texts are subjects of messages."""

import re

_BYTES = 1_000  # the server's control line has 4,096, that of clients may have less
_BLANK = re.compile(r"[\s\x00-\x20\x7f]")
_RESERVED = re.compile(r"\$|_INBOX(\.|$)")


def subject_fault(text: str) -> str:
    """Why NATS would not take that for the subject of a message, or for a command instead; empty if it is one."""
    if not text:
        return "it is empty"
    if _BLANK.search(text):
        return "a subject has no blanks and no control characters"
    if "*" in text or ">" in text:
        return "a subject has no wildcards, '*' and '>'"
    if "" in text.split("."):
        return "a subject has text between its dots"
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        return "a subject is UTF-8"
    if len(text.encode()) > _BYTES:
        return f"a subject has at most {_BYTES:,} bytes"
    return ""


def reserved_fault(text: str) -> str:
    """Why a message must not go to that subject: NATS would obey it, or somebody would take it for an answer."""
    return "subjects that begin with '$' or '_INBOX' are NATS's own" if _RESERVED.match(text) else ""
