"""Which characters a part of a regular expression can match, by samples of all of them. Pure."""

import re
from collections.abc import Callable
from typing import Any

Chars = frozenset[str]

_USUAL = "aAzZ09_ -.,:/\n\té٣ \u2003€"


def samples_of(parsed: Any) -> Chars:
    """Characters of which each that the expression tells from others has one."""
    found = {ord(each) for each in _USUAL}

    def collect(value: Any) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 0x110000:
            found.update(code for code in (value - 1, value, value + 1) if 0 <= code < 0x110000)
        elif isinstance(value, list | tuple) or hasattr(value, "data"):
            for each in value:
                collect(each)

    collect(parsed)
    cased = {chr(code).swapcase() for code in found}
    return frozenset({*map(chr, found), *(each for each in cased if len(each) == 1)})


def matched(op: str, argument: Any, samples: Chars, flags: int) -> Chars:
    """Those that one character of the expression can be, as `re` has parsed it; all for what it does not know."""
    if op == "ANY":
        return samples if flags & re.DOTALL else samples - {"\n"}
    if op == "NOT_LITERAL":
        return samples - matched("LITERAL", argument, samples, flags)
    if op == "LITERAL":
        return frozenset(each for each in samples if _same(each, chr(argument), flags))
    if op == "RANGE":
        low, high = argument
        forms = {each: {each, each.lower(), each.upper()} if flags & re.IGNORECASE else {each} for each in samples}
        return frozenset(each for each in samples if any(chr(low) <= form <= chr(high) for form in forms[each]))
    if op == "CATEGORY":
        kind = str(argument)
        name = kind.removeprefix("CATEGORY_").removeprefix("NOT_")
        found = frozenset(each for each in samples if _IN_CATEGORY[name](each) and (each.isascii() or not flags & re.A))
        return samples - found if "_NOT_" in kind else found
    if op == "IN":
        negated = bool(argument) and str(argument[0][0]) == "NEGATE"
        each_of = [matched(str(kind), value, samples, flags) for kind, value in argument[negated:]]
        found = frozenset[str]().union(*each_of)
        return samples - found if negated else found
    return samples  # what an earlier group has matched


_IN_CATEGORY: dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda character: character.isalnum() or character == "_",
}


def _same(one: str, other: str, flags: int) -> bool:
    return one == other or bool(flags & re.IGNORECASE and one.lower() == other.lower())
