"""The kinds of sink that are installed, and what each can do, as `walrelay sinks` tells it."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from walrelay.publish.contract import SinkPlugin, SinkTraits
from walrelay.publish.plugins import entry_points_by_kind


class InstalledKind(NamedTuple):
    """`package`: whose entry point it is. `install`: the command that makes it usable; empty where it is usable now.
    `trouble`: why it cannot be used, with `install` or without.
    """

    kind: str
    package: str
    install: str
    delivery: list[str]
    commands: list[str]  # which not every sink has
    traits: SinkTraits | None  # None: the package says nothing
    trouble: str = ""


def kinds() -> Iterator[InstalledKind]:
    """By name. Imports no client library."""
    for kind, point in sorted(entry_points_by_kind().items()):
        package = point.dist.name if point.dist is not None else ""
        try:
            plugin: SinkPlugin = point.load()
        except Exception as error:  # of another package, and no reason to hide the others
            trouble = f"the package {package} cannot be imported: {type(error).__name__}: {error}"
            yield InstalledKind(kind, package, "", [], [], None, trouble)
            continue
        once = ["at_least_once", "exactly_once"] if plugin.exactly_once is not None else ["at_least_once"]
        install = _missing(plugin.traits, package)
        trouble = "its client is missing" if install else ""
        yield InstalledKind(kind, package, install, once, [*_commands(plugin)], plugin.traits, trouble)


def is_installed(module: str) -> bool:
    """Whether the module is there; nothing of it is imported but the packages around it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there
        return False


def _missing(traits: SinkTraits | None, package: str) -> str:
    if traits is None or not traits.client or is_installed(traits.client):
        return ""
    return f"pip install '{package}[{traits.extra}]'" if traits.extra else f"pip install {traits.client}"


def _commands(plugin: SinkPlugin) -> Iterator[str]:
    if plugin.make_topics is not None:
        yield "init --topics"
    if plugin.read_back is not None:
        yield "audit"
    if plugin.topic_stream is not None:
        yield "compare"
