"""Reads a settings file: Settings, or every problem in it at once, each with its line and what to write instead."""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import TypeVar

from pydantic import SecretStr, ValidationError

from walrelay.config import databases, document, several
from walrelay.config.admin import AdminSettings
from walrelay.config.complaints import problems
from walrelay.config.databases import DatabaseQuery
from walrelay.config.document import Document, Problem, encodable, expanded, revealed
from walrelay.config.models import LogSettings, Settings
from walrelay.config.monitoring import HealthSettings, HttpSettings, MetricsSettings, OtlpSettings
from walrelay.config.places import Places
from walrelay.config.values import Section
from walrelay.errors import SettingsError

Validated = TypeVar("Validated", bound=Section)

HINT = "`walrelay docs settings` lists every setting; `walrelay config example` prints a file that works."


def load(path: Path) -> Settings:
    """The settings of the only relay in that file; see `load_relays`."""
    return parse(text_of(path), str(path), os.environ)


def load_relays(
    path: Path, wanted: Collection[str] = (), left_out: list[SettingsError] | None = None
) -> dict[str, Settings]:
    """The relays in that file, with the process's environment; SettingsError if they cannot be used.

    By name, in the order of the file; a file of one relay without `relays` has the name "". With names in `wanted`,
    only those: what is wrong with another relay does not matter to them. `left_out` gets what is wrong with single
    databases that a query found and nobody named; without it, that is an error too.
    """
    return parse_relays(text_of(path), str(path), os.environ, wanted, left_out)


def load_databases(path: Path) -> "Databases | None":
    """What looks for the databases of that file, if it has a query for them."""
    text = text_of(path)
    written = document.read(text)
    if not several.has_databases(written) or not databases.has_query(written):
        return None
    return Databases(written, str(path), os.environ)


def text_of(path: Path) -> str:
    """The file's text; SettingsError if it cannot be read."""
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


def parse_relays(
    text: str,
    name: str,
    env: Mapping[str, str],
    wanted: Collection[str] = (),
    left_out: list[SettingsError] | None = None,
) -> dict[str, Settings]:
    """The relays in `text`, which came from the file `name`. Reads no file but those named by `file:` secrets.

    SettingsError lists every problem, one a line, as `name:line: path: what is wrong`.
    """
    written = document.read(text)
    if several.has_databases(written) and databases.has_query(written):
        return _found(Databases(written, name, env), name, wanted, left_out)
    if not several.has_several(written):
        if any(wanted):
            raise SettingsError(f"{name}: has one relay, without a name", hint="Leave --relay out.")
        settings, found = validated(resolved(written, env), Settings)
        relays = {"": settings} if settings else {}
    else:
        relays, found = _several(written, name, env, wanted)
    refuse(found, name)
    return relays


def refuse(found: Iterable[Problem], name: str) -> None:
    """SettingsError where there are problems, a line for each."""
    if lines := _lines(found, name):
        raise SettingsError("\n".join(lines), hint=HINT)


class Databases:
    """The relays of a file whose databases a query finds."""

    def __init__(self, written: Document, name: str, env: Mapping[str, str]) -> None:
        """SettingsError if the query's settings cannot be used."""
        self._written, self._name, self._env = written, name, env
        query, found = validated(resolved(written.below(several.DATABASES), env, DatabaseQuery), DatabaseQuery)
        refuse([each._replace(path=(several.DATABASES, *each.path)) for each in found], name)
        assert query is not None
        self._query, self._known, self._lock = query, dict[str, Settings](), Lock()
        self.log = self._shared("log", LogSettings)
        self.http = self._shared("http", HttpSettings)
        self.metrics = self._shared("metrics", MetricsSettings)
        self.health = self._shared("health", HealthSettings)
        self.otlp = self._shared("otlp", OtlpSettings)
        self.admin = self._shared("admin", AdminSettings)

    @property
    def look_interval(self) -> float:
        """Seconds."""
        return self._query.look_interval

    def look(self) -> databases.FoundDatabases:
        """Asks for them; Retryable or Fatal if that fails."""
        found = databases.ask(self._query)
        with self._lock:
            self._known = {name: settings for name, settings in self._known.items() if name in found.dsns}
        return found

    def _shared(self, section: str, model: type[Validated]) -> Validated:
        """A section of the process, which begins before a database is found."""
        defaults, path = self._written.value.get(several.DEFAULTS), (several.DEFAULTS, section)
        if not isinstance(defaults, dict) or section not in defaults:
            return model()
        below = self._written.below(several.DEFAULTS).below(section)
        settings, found = validated(resolved(below, self._env, model), model)
        refuse([each._replace(path=(*path, *each.path)) for each in found], self._name)
        assert settings is not None
        return settings

    def settings(self, name: str, dsn: SecretStr) -> Settings:
        """Those of one relay; SettingsError if they cannot be used, or not beside those of the others."""
        parts, found = several.database_parts(self._written, {name: dsn})
        settings, faults = validated(resolved(parts[name].document, self._env), Settings)
        found += map(parts[name].in_file, faults)
        with self._lock:
            if settings is not None:
                others = {other: each for other, each in self._known.items() if other != name}
                found += several.shared({**others, name: settings}, parts)
            refuse([*found, *self._written.problems], self._name)
            assert settings is not None
            self._known[name] = settings
        return settings


def _found(
    databases: "Databases", name: str, wanted: Collection[str], left_out: list[SettingsError] | None
) -> dict[str, Settings]:
    """The relays of what a query finds now. One database that is wrong is no error if others can be used, unless it is
    wanted.
    """
    dsns, faults = databases.look()
    usable, wrong = dict[str, Settings](), list[SettingsError]()
    for each in chosen_names({**dict.fromkeys(dsns), **{fault.name: None for fault in faults}}, wanted, name):
        wrong += [SettingsError(f"{name}: {fault.text}") for fault in faults if fault.name == each]
        try:
            usable |= {each: databases.settings(each, dsns[each])} if each in dsns else {}
        except SettingsError as error:
            wrong.append(error)
    if wrong and (wanted or left_out is None or not usable):
        lines = dict.fromkeys(line for error in wrong for line in str(error).splitlines())
        raise SettingsError("\n".join(lines), hint=next(filter(None, (error.hint for error in wrong)), ""))
    if left_out is not None:
        left_out += wrong
    return usable


def chosen_names(names: Collection[str], wanted: Collection[str], name: str) -> list[str]:
    """The wanted names, or all; SettingsError for one that the file `name` does not have."""
    try:
        return several.chosen(names, wanted)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None


def _several(
    written: Document, name: str, env: Mapping[str, str], wanted: Collection[str]
) -> tuple[dict[str, Settings], list[Problem]]:
    parts, found = several.database_parts(written) if several.has_databases(written) else several.parts(written)
    found += written.problems
    names = [] if found and not {*wanted} <= parts.keys() else chosen_names(parts, wanted, name)
    read = {each: validated(resolved(parts[each].document, env), Settings) for each in names}
    for each, (_, faults) in read.items():
        found += map(parts[each].in_file, faults)
    relays = {each: settings for each, (settings, _) in read.items() if settings is not None}
    return relays, [*found, *several.shared(relays, parts)]


def resolved(written: Document, env: Mapping[str, str], model: type[Section] = Settings) -> Document:
    """The document with its references replaced by their values.

    A text that may be a secret becomes a SecretStr here: a model with `str | SecretStr` would keep it as a str.
    """

    def resolved(path: document.KeyPath, text: str) -> str | SecretStr:
        value = encodable(expanded(text, env))
        return SecretStr(encodable(revealed(value))) if places.secret(path) else value

    places = Places(document.replaced(written, lambda _, text: expanded(text, env)).value, model)
    return document.replaced(written, resolved)


def validated(resolved: Document, model: type[Validated]) -> tuple[Validated | None, list[Problem]]:
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
