"""Any module can be the first that is imported, as no two packages need each other; each broker's client is imported by
its sink.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import walrelay
from walrelay.publish.kinds import kinds
from walrelay.publish.plugins import entry_points_by_kind

PACKAGE = Path(walrelay.__file__).parent


def modules() -> dict[str, Path]:
    """By name; a package is its `__init__`."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ["walrelay", *path.relative_to(PACKAGE).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(body: list[ast.stmt], known: set[str]) -> Iterator[str]:
    """What is imported while that module is: neither what functions import nor what is for types alone."""
    for node in body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from {f"{module}.{each.name}" for each in names} & known
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=otherwise):
                yield from imported(otherwise, known)
            case ast.If() | ast.Try() | ast.With():
                yield from imported(node.body, known)


def imported_anywhere(path: Path) -> Iterator[str]:
    """Functions' imports too."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.Import(names=names):
                yield from (each.name for each in names)


def with_packages(name: str) -> Iterator[str]:
    """A module's packages are imported before it."""
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as why:
        return list(why.args[1])
    return []


def test_no_module_is_imported_in_a_circle() -> None:
    found = modules()
    graph = {
        name: {
            each
            for target in imported(ast.parse(path.read_text()).body, {*found})
            for each in with_packages(target)
            if each in found and each != name and not name.startswith(f"{each}.")  # its own packages are under way
        }
        for name, path in found.items()
    }
    assert sum(map(len, graph.values())) > 1_000
    assert circle(graph) == []


@pytest.mark.parametrize(("graph", "found"), [({"a": {"b"}, "b": {"a"}}, True), ({"a": {"b"}, "b": set()}, False)])
def test_a_circle_is_found(graph: dict[str, set[str]], found: bool) -> None:
    assert bool(circle(graph)) == found


def test_a_brokers_client_is_imported_by_its_sink_alone() -> None:
    homes = {
        kind.traits.client: PACKAGE / "sinks" / entry_points_by_kind()[kind.kind].module.split(".")[2]
        for kind in kinds()
        if kind.traits is not None and kind.traits.client
    }
    assert len(homes) >= 5
    lab = PACKAGE / "lab" / "brokers"
    also = {client: [lab / f"{home.name}.py"] for client, home in homes.items()}
    also["aiohttp"].append(lab / "webhook_receiver.py")
    also["confluent_kafka"] = [PACKAGE / "lab", PACKAGE / "schemas"]
    strangers = {
        f"{path.relative_to(PACKAGE)}: {client}"
        for path in modules().values()
        for name in imported_anywhere(path)
        if (client := name.partition(".")[0]) in homes
        if not any(path.is_relative_to(home) for home in (homes[client], *also.get(client, [])))
    }
    assert strangers == set()
