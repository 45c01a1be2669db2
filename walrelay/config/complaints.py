"""What pydantic finds wrong in a document, as problems: each with its line and what to write instead."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from walrelay.config import presets
from walrelay.config.document import Document, KeyPath, Problem
from walrelay.config.places import Places
from walrelay.config.values import SectionError


def problems(error: ValidationError, document: Document, places: Places) -> Iterator[Problem]:
    """One problem for each fault, except where the document already had one."""
    broken = {problem.path for problem in document.problems}
    for details in error.errors(include_url=False):
        # pydantic's own place may end in a key that is missing, or in the name of a union's member
        full = (*details["loc"], *_deeper(details))
        path = document.known(full)
        if full not in document.lines and presets.says(document.value, full):
            told = f"{_text(details, full, places)} (says the preset {presets.named(document.value)!r})"
            yield Problem(document.line(("outbox", "preset")), full, told)
        elif not any(path[:length] in broken for length in range(len(path) + 1)):
            outer = path[:-1] if details["type"] == "extra_forbidden" else path
            yield Problem(document.line(path), outer, _text(details, outer, places))


def _deeper(details: ErrorDetails) -> KeyPath:
    """The path of a SectionError."""
    error = details.get("ctx", {}).get("error")
    return error.path if isinstance(error, SectionError) else ()


def _text(details: ErrorDetails, path: KeyPath, places: Places) -> str:
    match details["type"]:
        case "missing":
            return _missing(str(details["loc"][-1]), path, places)
        case "extra_forbidden":
            return _unknown(str(details["loc"][-1]), path, places)
        case "value_error":
            return str(details["ctx"]["error"])
        case _:
            return _misfit(details, path, places.unit(path))


def _missing(key: str, path: KeyPath, places: Places) -> str:
    meaning = places.meaning((*path, key))
    return f"{key!r} is missing: {meaning}" if meaning else f"{key!r} is missing"


def _unknown(key: str, path: KeyPath, places: Places) -> str:
    known = list(places.fields(path))
    close = get_close_matches(key, known, n=1)
    advice = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
    return f"unknown key {key!r}; {advice}"


def _misfit(details: ErrorDetails, path: KeyPath, unit: str) -> str:
    """A value of the wrong type or size. It is shown only where no secret is expected."""
    if details["type"] in ("model_type", "model_attributes_type", "dict_type"):
        below = ", indented below it; to have the defaults, leave it out"
        return "must be a mapping: `key: value` lines" + (below if path else "")
    if details["input"] is None:
        return "has no value"
    shown = _shown(details["input"])
    if isinstance(details["input"], (list, dict)) and details["type"] not in ("list_type", "value_error"):
        return f"{shown} does not belong here: write one value"
    match details["type"]:
        case "literal_error":
            return f"{shown} is not one of {_listed(details['ctx']['expected'])}"
        case "bool_parsing" | "bool_type":
            return f"{shown} is not true or false"
        case "float_parsing" | "float_type" | "int_parsing" | "int_type" | "int_from_float":
            kind = "a whole number" if details["type"].startswith("int") else "a number"
            return f"{shown} is not {kind}{f' of {unit}' if unit else ''}"
        case "finite_number":
            return f"{shown} is not a finite number{f' of {unit}' if unit else ''}"
        case "string_too_short":
            return "is empty"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return f"{shown} {details['msg'].removeprefix('Input ')}{f' {unit}' if unit else ''}"
        case "string_type":
            return "must be text; put it in quotes"
        case _:
            return details["msg"].removeprefix("Input ")


def _shown(value: Any) -> str:
    """Nothing from inside a list or a mapping."""
    match value:
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case bool():
            return str(value).lower()
        case _:
            return repr(value)


def _listed(expected: str) -> str:
    """`'a', 'b' or 'c'` as `a, b, c`."""
    return expected.replace("'", "").replace(" or ", ", ")
