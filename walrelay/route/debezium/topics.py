"""The topic of a row: Java's regular expressions and replacements, as Kafka's RegexRouter applies them."""

import re

from walrelay.route.backtracking import longest_text

_OTHER = re.compile(r"\\[pPQEhHvVRGXNkKzZcx0u]|&&|\(\?<[a-zA-Z]\w*[^\w>]|\[[^\]\\]*\[")
_GROUP = re.compile(r"\(\?<(?=[a-zA-Z])")


def compiled(regex: str) -> re.Pattern[str]:
    """ValueError for what Python reads otherwise than Java, or not at all."""
    if other := _OTHER.search(regex):
        raise ValueError(f"{regex!r}: {other[0]!r} is read by Java only; write it with classes such as [a-z]")
    try:
        found = re.compile(_GROUP.sub("(?P<", regex), re.ASCII)
    except re.error as error:
        raise ValueError(f"{regex!r} is not a regular expression: {error}") from None
    longest_text(found, whole=True)  # whatever it is: topics are short
    return found


def parts(text: str, pattern: re.Pattern[str]) -> list[str | int]:
    r"""A replacement as texts and numbers of groups. `$1` and `${name}` are groups, `\` makes the next character plain;
    ValueError for any other.
    """
    found, at = list[str | int](), 0
    while at < len(text):
        character = text[at]
        if character == "\\":
            if at + 1 == len(text):
                raise ValueError(f"{text!r} ends in a backslash")
            found.append(text[at + 1])
            at += 2
        elif character == "$":
            group, at = _group(text, at + 1, pattern)
            found.append(group)
        else:
            found.append(character)
            at += 1
    return found


def _group(text: str, at: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    """The number of the group that is named from there on, and where its name ends."""
    if named := re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(text, at):
        if named[1] not in pattern.groupindex:
            raise ValueError(f"{text!r} names the group {named[1]!r}, which route.topic.regex does not have")
        return pattern.groupindex[named[1]], named.end()
    digits = re.compile("[0-9]+").match(text, at)
    if digits is None:
        raise ValueError(f"{text!r}: '$' must be followed by {{NAME}} or a number; write \\$ for itself")
    end = next((end for end in range(digits.end(), at, -1) if int(text[at:end]) <= pattern.groups), at + 1)
    if int(text[at:end]) > pattern.groups:
        raise ValueError(f"{text!r} names the group {text[at:end]}, which route.topic.regex does not have")
    return int(text[at:end]), end


class TopicOfValue:
    """The topic for a value of the column `route.by.field`: the value itself where the expression does not match the
    whole of it.
    """

    def __init__(self, regex: str, text: str) -> None:
        """ValueError if they cannot be used."""
        self._pattern = compiled(regex)
        self._parts = parts(text, self._pattern)
        self._known: dict[str, str] = {}

    def __call__(self, value: str) -> str:
        topic = self._known.get(value)
        if topic is None:
            topic = value
            if self._pattern.fullmatch(value):
                topic = self._pattern.sub(self._filled, value, count=1)
            if len(self._known) < 10_000:
                self._known[value] = topic
        return topic

    def _filled(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self._parts)
