"""A settings file with several relays: each relay as a document of its own, with the defaults merged under it.

Mappings are merged key by key; anything else of a relay replaces what the defaults have. A sink of another kind than
the defaults' replaces the whole section, because its keys mean nothing to another kind; `sinks` replace a `sink`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from walrelay.config.document import Document, KeyPath, Problem
from walrelay.config.models import Settings
from walrelay.postgres.dsn import server

RELAYS, DEFAULTS = "relays", "defaults"

_SINKS = {"sink", "sinks"}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class Part(NamedTuple):
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
    """Whether the file has the form with `relays`, even if only one is there."""
    return isinstance(written.value, dict) and bool(written.value.keys() & {RELAYS, DEFAULTS})


def parts(written: Document) -> tuple[dict[str, Part], list[Problem]]:
    """The relays by name, and what is wrong around them."""
    relays, defaults = written.value.get(RELAYS), written.value.get(DEFAULTS, {})
    found = [
        Problem(written.line((key,)), (), f"{key!r} stands beside `relays`: write it under `defaults` or under a relay")
        for key in written.value
        if key not in (RELAYS, DEFAULTS)
    ]
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
            made[name] = _part(written, name, defaults, relay)
    return made, found


def _fault(name: str, relay: Any) -> str:
    if not _NAME.fullmatch(name):
        return "is no name of a relay: up to 63 letters, digits and any of _ . -, the first a letter or digit"
    if not isinstance(relay, dict):
        return "must be a mapping: the settings of this relay; {} if the defaults have all of them"
    return "the log is the process's: write `log` under `defaults`" if "log" in relay else ""


def _part(written: Document, name: str, defaults: Mapping[str, Any], relay: Mapping[str, Any]) -> Part:
    origins: dict[KeyPath, KeyPath] = {(): (RELAYS, name)}

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
            here, own = (*path, key), (RELAYS, name, *path, key)
            if key not in over:
                value[key] = taken(under[key], here, (DEFAULTS, *here))
            elif key in under and _merge(here, under[key], over[key]):
                origins[here] = own
                value[key] = merged(under[key], over[key], here)
            else:
                value[key] = taken(over[key], here, own)
        return value

    value = merged(defaults, relay, ())
    lines = {path: written.lines[origin] for path, origin in origins.items()}
    local = {origin: path for path, origin in origins.items()}
    problems = [problem._replace(path=local[problem.path]) for problem in written.problems if problem.path in local]
    return Part(Document(value, lines, problems), origins)


def _merge(path: KeyPath, under: Any, over: Any) -> bool:
    if not isinstance(under, dict) or not isinstance(over, dict):
        return False
    is_sink = path == ("sink",) or (len(path) == 2 and path[0] == "sinks")
    return not is_sink or over.get("kind", under.get("kind")) == under.get("kind")


def shared(relays: Mapping[str, Settings], parts: Mapping[str, Part]) -> Iterator[Problem]:
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
        if sink.kind == "stdout":  # whose lines would be mixed
            yield (("sinks", name, "kind") if name else ("sink", "kind")), ("standard output",)


def chosen(names: Collection[str], wanted: Collection[str]) -> list[str]:
    """The relays of that name, in the order of the file; all of them if none is named. ValueError for others."""
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(f"there is no relay {unknown[0]!r}; there are {', '.join(names)}")
    return [name for name in names if not wanted or name in wanted]
