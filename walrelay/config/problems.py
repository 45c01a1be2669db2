"""What pydantic found wrong, as problems with a line and in words that say what to write instead."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from walrelay.config.document import Document, KeyPath, Problem
from walrelay.config.models import Settings
from walrelay.config.sink import SinkKind, sink_model
from walrelay.config.values import Misplaced


class Places:
    """The models along the paths of one settings file; which model `sink:` has depends on that file."""

    def __init__(self, value: Any) -> None:
        sections = value if isinstance(value, Mapping) else {}
        self._sink = _sink_models(sections.get("sink"))

    def fields(self, path: KeyPath) -> dict[str, FieldInfo]:
        """The settings that are known in the mapping at `path`, by the key that stands in the file."""
        models = (candidate for candidate in self._types(path) if _is_model(candidate))
        return {field.alias or name: field for model in models for name, field in model.model_fields.items()}

    def secret(self, path: KeyPath) -> bool:
        """Whether a text at `path` may be a secret."""
        return SecretStr in self._types(path)

    def unit(self, path: KeyPath) -> str:
        """The unit of the number at `path`; empty if it has none."""
        field = self._field(path)
        extra = field.json_schema_extra if field else None
        return str(extra.get("unit", "")) if isinstance(extra, dict) else ""

    def meaning(self, path: KeyPath) -> str:
        """What the setting at `path` is, in one line; empty where the model does not say."""
        field = self._field(path)
        texts = [field.description if field else None, *(t.__doc__ for t in self._types(path) if _is_model(t))]
        return " ".join(next(filter(None, texts), "").split())

    def _field(self, path: KeyPath) -> FieldInfo | None:
        return self.fields(path[:-1]).get(str(path[-1])) if path else None

    def _types(self, path: KeyPath) -> list[Any]:
        if not path:
            return [Settings]
        if path == ("sink",):
            return self._sink
        field = self._field(path)
        if field:
            return list(_alternatives(field.annotation))
        return [inner for outer in self._types(path[:-1]) for inner in _items(outer)]


def _sink_models(section: Any) -> list[Any]:
    kind = section.get("kind") if isinstance(section, Mapping) else None
    try:
        return [SinkKind, sink_model(kind)] if isinstance(kind, str) else [SinkKind]
    except ValueError:  # an unknown kind is reported where the section is validated
        return [SinkKind]


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The types that a value may have: those of a union one by one, without what Annotated adds."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    else:
        yield annotation


def _items(container: Any) -> Iterator[Any]:
    """The types of the values in a mapping or the items of a list."""
    origin, arguments = get_origin(container), get_args(container)
    if isinstance(origin, type) and arguments:
        yield from _alternatives(arguments[1] if issubclass(origin, Mapping) else arguments[0])


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def problems(error: ValidationError, document: Document, places: Places) -> Iterator[Problem]:
    """One problem for each thing that is wrong, except where the document already had one."""
    broken = {problem.path for problem in document.problems}
    for details in error.errors(include_url=False):
        # pydantic's own place may end in a key that is missing, or in the name of a union's member
        path = document.known((*details["loc"], *_deeper(details)))
        if not any(path[:length] in broken for length in range(len(path) + 1)):
            outer = path[:-1] if details["type"] == "extra_forbidden" else path
            yield Problem(document.line(path), outer, _text(details, outer, places))


def _deeper(details: ErrorDetails) -> KeyPath:
    """Where a check of several settings together says that the fault is."""
    error = details.get("ctx", {}).get("error")
    return error.path if isinstance(error, Misplaced) else ()


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
    """A value of the wrong type or size. It is shown only where something was expected that no secret is."""
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
    """A scalar as it is; never what is inside a list or a mapping."""
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
