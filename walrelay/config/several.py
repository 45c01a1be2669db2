"""A settings file with several relays: each relay as a document of its own, with the defaults merged under it.

Mappings are merged key by key; anything else of a relay replaces what the defaults have. A sink of another kind than
the defaults' replaces the whole section, because its keys mean nothing to another kind; `sinks` replace a `sink`.

With `databases` instead of `relays` the file has a relay for each database: the defaults, in which `{database}` stands
for its name.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import SecretStr

from walrelay.config.document import Document, KeyPath, Problem, replaced
from walrelay.config.models import Settings
from walrelay.postgres.dsn import server
from walrelay.publish import load

RELAYS, DATABASES, DEFAULTS = "relays", "databases", "defaults"

SHARED = "log", "http", "metrics", "health", "otlp", "admin"
"""The sections that all relays of a process have together."""

_SINKS = {"sink", "sinks"}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_DATABASE = re.compile(r"\{\{database\}\}|(?<!\$)\{database\}")  # the first is a template's literal braces


class RelayDocument(NamedTuple):
    """One relay's settings as a document. `origins`: where each of its paths stands in the file."""

    document: Document
    origins: dict[KeyPath, KeyPath]

    def in_file(self, problem: Problem) -> Problem:
        """The problem by its path in the file: what is wrong in the defaults is the same for every relay."""
        known = problem.path
        while known not in self.origins:
            known = known[:-1]
        return problem._replace(path=self.origins[known] + problem.path[len(known) :])


def has_several(written: Document) -> bool:
    """Whether the file has the form with `relays` or `databases`, even if only one is there."""
    return isinstance(written.value, dict) and bool(written.value.keys() & {RELAYS, DATABASES, DEFAULTS})


def has_databases(written: Document) -> bool:
    return isinstance(written.value, dict) and DATABASES in written.value


def parts(written: Document) -> tuple[dict[str, RelayDocument], list[Problem]]:
    """The relays by name, and what is wrong around them."""
    relays, defaults = written.value.get(RELAYS), written.value.get(DEFAULTS, {})
    found = list(_beside(written, RELAYS, "write it under `defaults` or under a relay"))
    if not isinstance(relays, dict) or not relays:
        found.append(Problem(written.line((RELAYS,)), (), "`relays` must be a mapping: a name, and below it a relay"))
        relays = {}
    if not isinstance(defaults, dict):
        found.append(Problem(written.line((DEFAULTS,)), (DEFAULTS,), "must be a mapping: what every relay has"))
        defaults = {}
    made = {}
    for name, relay in relays.items():
        fault = _fault(name, relay)
        if fault:
            found.append(Problem(written.line((RELAYS, name)), (RELAYS, name), fault))
        else:
            made[name] = _part(written, (RELAYS, name), defaults, relay)
    return made, found


def database_parts(
    written: Document, dsns: Mapping[str, str | SecretStr] | None = None
) -> tuple[dict[str, RelayDocument], list[Problem]]:
    """The same for a file with `databases`. `dsns`: what its query found, if it has one."""
    found = list(_beside(written, DATABASES, "each database has a relay of the `defaults`; write others into a file"))
    named, defaults = written.value[DATABASES] if dsns is None else dsns, written.value.get(DEFAULTS)
    if not isinstance(named, dict) or not named:
        text = "`databases` must be a mapping: names with their DSNs, or dsn and query"
        return {}, [*found, Problem(written.line((DATABASES,)), (), text)]
    if not isinstance(defaults, dict):
        text = "`defaults` must be a mapping: what the relay of each database has"
        return {}, [*found, Problem(written.line((DEFAULTS,)), (), text)]
    source = defaults.get("source")
    source = source if isinstance(source, dict) else {}
    if "dsn" in source:
        found.append(_in_source(written, "dsn", "each database has its own, under `databases`; leave this one out"))
    if "slot" in source and not _DATABASE.search(str(source["slot"])):
        fault = "each database needs a slot of its own, as slots are the server's: write walrelay_{database}"
        found.append(_in_source(written, "slot", fault))
    line = written.line((DATABASES,))
    written = written._replace(lines={**{(DATABASES, name): line for name in named}, **written.lines})
    made = {}
    for name, dsn in named.items():
        fault = name_fault(name) or ("" if isinstance(dsn, str | SecretStr) else "must be text: the database's DSN")
        if fault:
            found.append(Problem(written.line((DATABASES, name)), (DATABASES, name), fault))
        else:
            own = {"source": {"dsn": dsn, **({} if "slot" in source else {"slot": f"walrelay_{name}"})}}
            part = _part(written, (DATABASES, name), defaults, own)
            for path in {(), ("source",)} & {each[1:] for each in written.lines if each[:1] == (DEFAULTS,)}:
                part.origins[path] = (DEFAULTS, *path)  # a fault of these is not the database's
                part.document.lines[path] = written.lines[DEFAULTS, *path]
            made[name] = part._replace(document=_named(part.document, name))
    return made, found


def _named(document: Document, database: str) -> Document:
    def name(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith("{{") else database

    return replaced(document, lambda _, text: _DATABASE.sub(name, text))


def _beside(written: Document, home: str, advice: str) -> Iterator[Problem]:
    for key in written.value:
        if key not in (home, DEFAULTS):
            yield Problem(written.line((key,)), (), f"{key!r} stands beside `{home}`: {advice}")


def _in_source(written: Document, key: str, text: str) -> Problem:
    path = (DEFAULTS, "source", key)
    return Problem(written.line(path), path, text)


def name_fault(name: str) -> str:
    """Why that can be no relay's name; empty if it can."""
    if _NAME.fullmatch(name):
        return ""
    return "is no name of a relay: up to 63 letters, digits and any of _ . -, the first a letter or digit"


def _fault(name: str, relay: Any) -> str:
    if fault := name_fault(name):
        return fault
    if not isinstance(relay, dict):
        return "must be a mapping: the settings of this relay; {} if the defaults have all of them"
    shared = next((each for each in SHARED if each in relay), "")
    return f"`{shared}` is the process's: write it under `defaults`" if shared else ""


def _part(written: Document, home: KeyPath, defaults: Mapping[str, Any], relay: Mapping[str, Any]) -> RelayDocument:
    origins: dict[KeyPath, KeyPath] = {(): home}

    def taken(value: Any, path: KeyPath, origin: KeyPath) -> Any:
        origins[path] = origin
        match value:
            case dict():
                return {key: taken(item, (*path, key), (*origin, key)) for key, item in value.items()}
            case list():
                return [taken(item, (*path, index), (*origin, index)) for index, item in enumerate(value)]
            case _:
                return value

    def merged(under: Mapping[str, Any], over: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key in {**under, **over}:
            if not path and key in _SINKS and key not in over and over.keys() & _SINKS:
                continue  # `sink` and `sinks` replace each other
            here, own = (*path, key), (*home, *path, key)
            if key not in over:
                value[key] = taken(under[key], here, (DEFAULTS, *here))
            elif key in under and _merge(here, under[key], over[key]):
                origins[here] = own
                value[key] = merged(under[key], over[key], here)
            else:
                value[key] = taken(over[key], here, own)
        return value

    value = merged(defaults, relay, ())
    origins = {path: written.known(origin) for path, origin in origins.items()}
    lines = {path: written.lines[origin] for path, origin in origins.items()}
    local = {origin: path for path, origin in origins.items()}
    problems = [problem._replace(path=local[problem.path]) for problem in written.problems if problem.path in local]
    return RelayDocument(Document(value, lines, problems), origins)


def _merge(path: KeyPath, under: Any, over: Any) -> bool:
    if not isinstance(under, dict) or not isinstance(over, dict):
        return False
    is_sink = path == ("sink",) or (len(path) == 2 and path[0] == "sinks")
    return not is_sink or over.get("kind", under.get("kind")) == under.get("kind")


def shared(relays: Mapping[str, Settings], parts: Mapping[str, RelayDocument]) -> Iterator[Problem]:
    """Where two relays share what one of them needs for itself: slot, file with its position, standard output."""
    taken: dict[tuple[str, ...], str] = {}
    for name, settings in relays.items():
        for path, thing in _needed(settings):
            first = taken.setdefault(thing, name)
            if first != name:
                text = f"relay {first!r} has {thing[0]} too; each relay needs its own"
                yield parts[name].in_file(Problem(parts[name].document.line(path), path, text))


def _needed(settings: Settings) -> Iterator[tuple[KeyPath, tuple[str, ...]]]:
    source = settings.source
    yield ("source", "slot"), (f"the slot {source.slot!r}", server(source.dsn.get_secret_value()))
    if settings.position.keep == "file":
        yield ("position", "path"), (f"the file {settings.position.path!r}",)
    for name, sink in settings.named_sinks.items():
        if place := load(sink.kind).writes_to(sink.settings):
            yield (("sinks", name, "kind") if name else ("sink", "kind")), (place,)


def chosen(names: Collection[str], wanted: Collection[str]) -> list[str]:
    """The relays of that name, in the order of the file; all of them if none is named. ValueError for others."""
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(f"there is no relay {unknown[0]!r}; there are {', '.join(names)}")
    return [name for name in names if not wanted or name in wanted]
