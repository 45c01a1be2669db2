"""JSON of others as text: how deep it may be nested, whichever Python reads it and wherever its caller stands; and
halves of surrogate pairs, which it can name though they are no text.
"""

import re

DEEPEST = 500
"""Levels of lists and objects that are read. Python 3.11 gives up at 1,000, less the calls above it."""

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKETS = re.compile(r"[\[{]+|[\]}]+")


class NestedTooDeeply(ValueError):
    """The text is nested deeper than `DEEPEST`: it is not read at all."""

    def __init__(self) -> None:
        super().__init__(f"it is nested too deeply: more than {DEEPEST} levels are not read")


def refuse_depth(text: str, around: int = 0) -> None:
    """Raises NestedTooDeeply; linear in the size. `around`: levels of the text that are not the sender's."""
    most = DEEPEST + around
    if text.count("[") + text.count("{") <= most:
        return
    depth = 0
    for match in _BRACKETS.finditer(_STRING.sub("", text)):
        run = match[0]
        if run[0] in "[{":
            depth += len(run)
            if depth > most:
                raise NestedTooDeeply
        else:
            depth -= len(run)


def has_half_pair(document: str, *texts: str) -> bool:
    """Whether one of the texts that stand in the document holds half of a surrogate pair. In a document that is not
    UTF-8 (of a SQL_ASCII database) such halves are its bytes.
    """
    found = any(not text.isascii() and _HALF_PAIR.search(text) for text in texts)
    return found and not _HALF_PAIR.search(document)
