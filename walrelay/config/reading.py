"""Reads a settings file: Settings, or every problem in it at once, each with its line and what to write instead."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from walrelay.config import databases, document, presets, several
from walrelay.config.databases import DatabaseQuery
from walrelay.config.document import Document, KeyPath, Problem, encodable, expanded, revealed
from walrelay.config.models import Settings
from walrelay.config.places import Places
from walrelay.config.several import Part
from walrelay.config.values import Section, SectionError
from walrelay.errors import SettingsError

Validated = TypeVar("Validated", bound=Section)

HINT = "`walrelay docs settings` lists every setting; `walrelay config example` prints a file that works."


def load(path: Path) -> Settings:
    """The settings of the only relay in that file; see `load_relays`."""
    return parse(_text_of(path), str(path), os.environ)


def load_relays(path: Path, wanted: Collection[str] = ()) -> dict[str, Settings]:
    """The relays in that file, with the process's environment; SettingsError if they cannot be used.

    By name, in the order of the file; a file of one relay without `relays` has the name "". With names in `wanted`,
    only those: what is wrong with another relay does not matter to them.
    """
    return parse_relays(_text_of(path), str(path), os.environ, wanted)


def load_databases(path: Path) -> "Databases | None":
    """What looks for the databases of that file, if it has a query for them."""
    text = _text_of(path)
    written = document.read(text)
    if not several.has_databases(written) or not databases.has_query(written):
        return None
    return Databases(written, str(path), os.environ)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file", hint=f"walrelay config example > {path}") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text, from byte {error.start} on") from None


def parse(text: str, name: str, env: Mapping[str, str]) -> Settings:
    """The settings of the only relay in `text`; see `parse_relays`."""
    relays = parse_relays(text, name, env)
    if len(relays) > 1:
        raise SettingsError(f"{name}: has several relays: {', '.join(relays)}", hint="Name one with --relay.")
    (settings,) = relays.values()
    return settings


def parse_relays(text: str, name: str, env: Mapping[str, str], wanted: Collection[str] = ()) -> dict[str, Settings]:
    """The relays in `text`, which came from the file `name`. Reads no file but those named by `file:` secrets.

    SettingsError lists every problem, one a line, as `name:line: path: what is wrong`.
    """
    written = document.read(text)
    if not several.has_several(written):
        if any(wanted):
            raise SettingsError(f"{name}: has one relay, without a name", hint="Leave --relay out.")
        settings, found = _validated(_resolved(written, env), Settings)
        relays = {"": settings} if settings else {}
    else:
        relays, found = _several(written, name, env, wanted)
    _refuse(found, name)
    return relays


def _refuse(found: Iterable[Problem], name: str) -> None:
    if lines := _lines(found, name):
        raise SettingsError("\n".join(lines), hint=HINT)


class Databases:
    """The relays of a file whose databases a query finds."""

    def __init__(self, written: Document, name: str, env: Mapping[str, str]) -> None:
        """SettingsError if the query's settings cannot be used."""
        self._written, self._name, self._env = written, name, env
        resolved = _resolved(written.below(several.DATABASES), env, DatabaseQuery)
        query, found = _validated(resolved, DatabaseQuery)
        _refuse([each._replace(path=(several.DATABASES, *each.path)) for each in found], name)
        assert query is not None
        self._query, self._known, self._lock = query, dict[str, Settings](), Lock()

    @property
    def look_interval(self) -> float:
        """Seconds."""
        return self._query.look_interval

    def look(self) -> databases.Found:
        """Asks for them; Fatal if that fails."""
        found = databases.ask(self._query)
        with self._lock:
            self._known = {name: settings for name, settings in self._known.items() if name in found.dsns}
        return found

    def settings(self, name: str, dsn: SecretStr) -> Settings:
        """Those of one relay; SettingsError if they cannot be used, or not beside those of the others."""
        parts, found = several.database_parts(self._written, {name: dsn})
        settings, faults = _validated(_resolved(parts[name].document, self._env), Settings)
        found += map(parts[name].in_file, faults)
        with self._lock:
            if settings is not None:
                others = {other: each for other, each in self._known.items() if other != name}
                found += several.shared({**others, name: settings}, parts)
            _refuse([*found, *self._written.problems], self._name)
            assert settings is not None
            self._known[name] = settings
        return settings


def _parts(
    written: Document, name: str, env: Mapping[str, str], wanted: Collection[str]
) -> tuple[dict[str, Part], list[Problem]]:
    if not several.has_databases(written):
        return several.parts(written)
    if not databases.has_query(written):
        return several.database_parts(written)
    found = Databases(written, name, env).look()
    if found.faults and not wanted:
        raise SettingsError("\n".join(f"{name}: {fault}" for fault in found.faults))
    return several.database_parts(written, found.dsns)


def _several(
    written: Document, name: str, env: Mapping[str, str], wanted: Collection[str]
) -> tuple[dict[str, Settings], list[Problem]]:
    parts, found = _parts(written, name, env, wanted)
    found += written.problems
    try:
        names = several.chosen(parts, wanted)
    except ValueError as error:
        if not found:
            raise SettingsError(f"{name}: {error}") from None
        names = []
    read = {each: _validated(_resolved(parts[each].document, env), Settings) for each in names}
    for each, (_, faults) in read.items():
        found += map(parts[each].in_file, faults)
    relays = {each: settings for each, (settings, _) in read.items() if settings is not None}
    return relays, [*found, *several.shared(relays, parts)]


def _resolved(written: Document, env: Mapping[str, str], model: type[Section] = Settings) -> Document:
    """The document with its references replaced by their values.

    A text that may be a secret becomes a SecretStr here: a model with `str | SecretStr` would keep it as a str.
    """

    def resolved(path: document.KeyPath, text: str) -> str | SecretStr:
        value = encodable(expanded(text, env))
        return SecretStr(encodable(revealed(value))) if places.secret(path) else value

    places = Places(document.replaced(written, lambda _, text: expanded(text, env)).value, model)
    return document.replaced(written, resolved)


def _validated(resolved: Document, model: type[Validated]) -> tuple[Validated | None, list[Problem]]:
    """Returns the problems rather than raising: an exception that carries pydantic's would carry the secrets."""
    try:
        return model.model_validate(resolved.value), resolved.problems
    except ValidationError as error:
        more = problems(error, resolved, Places(resolved.value, model))
        return None, [*resolved.problems, *more]


def _lines(found: Iterable[Problem], name: str) -> list[str]:
    in_order = sorted(dict.fromkeys(found), key=lambda problem: problem.line)
    return [f"{name}:{line}: {_dotted(path)}{text}" for line, path, text in in_order]


def _dotted(path: document.KeyPath) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{_printable(step)}" for step in path)
    return f"{steps.removeprefix('.')}: " if steps else ""


def _printable(key: str) -> str:
    """A key as it is, unless it would break the line."""
    return key if key.isprintable() else repr(key)


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
