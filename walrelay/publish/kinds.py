"""The kinds of sink that are installed, and what each can do, as `walrelay sinks` tells it."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from walrelay.publish.contract import SinkPlugin, SinkTraits
from walrelay.publish.plugins import entry_points_by_kind


class InstalledKind(NamedTuple):
    """`package`: whose entry point it is. `install`: the command that makes it usable; empty where it is usable now."""

    kind: str
    package: str
    install: str
    delivery: list[str]
    commands: list[str]  # which not every sink has
    traits: SinkTraits | None  # None: the package says nothing


def kinds() -> Iterator[InstalledKind]:
    """By name. Imports no client library."""
    for kind, point in sorted(entry_points_by_kind().items()):
        plugin: SinkPlugin = point.load()
        package = point.dist.name if point.dist is not None else ""
        once = ["at_least_once", "exactly_once"] if plugin.exactly_once is not None else ["at_least_once"]
        yield InstalledKind(kind, package, _missing(plugin.traits, package), once, [*_commands(plugin)], plugin.traits)


def _missing(traits: SinkTraits | None, package: str) -> str:
    if traits is None or not traits.client or find_spec(traits.client) is not None:
        return ""
    return f"pip install '{package}[{traits.extra}]'" if traits.extra else f"pip install {traits.client}"


def _commands(plugin: SinkPlugin) -> Iterator[str]:
    if plugin.make_topics is not None:
        yield "init --topics"
    if plugin.read_back is not None:
        yield "audit"
    if plugin.topic_stream is not None:
        yield "compare"
