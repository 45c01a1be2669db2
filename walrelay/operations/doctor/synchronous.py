"""synchronous_standby_names: whether commits of the whole cluster would wait for walrelay (PITFALLS A38)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, problem
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import application_name
from walrelay.wire.commands import literal

_SUBJECT = "synchronous_standby_names"


class Standbys(NamedTuple):
    """The setting taken apart: commits wait for `needed` of `names`, for any of them or for the first ones present."""

    any: bool
    needed: int
    names: list[str]

    def place(self, application_name: str) -> int | None:
        """Where the list has the name, from 0; names are compared without regard to case."""
        for place, name in enumerate(self.names):
            if name == "*" or name.lower() == application_name.lower():
                return place
        return None


def parse(setting: str) -> Standbys:
    """`ANY 1 (a, "b")`, `FIRST 2 (a, b)`, `2 (a, b)`, `a, b` or `*`."""
    match = re.fullmatch(r"\s*(?:(ANY|FIRST)?\s*(\d+)\s*\((.*)\)|(.*))\s*", setting, re.IGNORECASE | re.DOTALL)
    assert match is not None  # the last alternative takes anything
    kind, count, several, plain = match.groups()
    listed = several if several is not None else plain
    names = [name.replace('""', '"') or bare for name, bare in re.findall(r'"((?:[^"]|"")+)"|([^\s,"]+)', listed)]
    return Standbys((kind or "").upper() == "ANY", int(count or 1), names)


def standby_names(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    setting = catalog.value(f"SHOW {_SUBJECT}")
    name = application_name(expected.dsn)
    standbys = parse(setting)
    place = standbys.place(name)
    if place is None:
        yield ok(_SUBJECT, f"no commit waits for {name}")
    elif standbys.any or place < standbys.needed:
        detail = f"{setting!r} makes {name} a synchronous standby: commits would wait for the broker"
        yield problem(_SUBJECT, detail, _without(catalog, expected, standbys, name))
    else:
        detail = f"{setting!r} makes {name} a synchronous standby as soon as another one is away"
        yield problem(_SUBJECT, detail, _without(catalog, expected, standbys, name))


def _without(catalog: Catalog, expected: Expected, standbys: Standbys, name: str) -> str:
    """The setting without walrelay: for `*` the standbys that are connected now, by their names."""
    names = [each for each in standbys.names if each != "*" and each.lower() != name.lower()]
    if "*" in standbys.names:
        names += [each for each in _connected(catalog) if each not in names and each.lower() != name.lower()]
    quoted = ", ".join('"' + each.replace('"', '""') + '"' for each in names)
    kind, count = "ANY" if standbys.any else "FIRST", min(standbys.needed, len(names))
    value = f"{kind} {count} ({quoted})" if names else ""
    return f"ALTER SYSTEM SET {_SUBJECT} = {literal(value)}; SELECT pg_reload_conf();"


def _connected(catalog: Catalog) -> list[str]:
    """The names of the physical standbys: whoever does not read a logical slot."""
    return [
        name
        for (name,) in catalog.rows(
            "SELECT DISTINCT application_name FROM pg_stat_replication WHERE application_name <> '' AND pid NOT IN"
            " (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)"
            " ORDER BY 1"
        )
    ]
