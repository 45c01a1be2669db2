"""The plug-in door: sinks by entry point, so that nothing in walrelay imports a broker's client unasked."""

from importlib.metadata import entry_points

from walrelay.errors import Fatal
from walrelay.publish.contract import ExactlyOncePlugin, MakesTopics, ReadBack, SinkPlugin

GROUP = "walrelay.sinks"


def installed() -> list[str]:
    """The kinds of sink that are installed, sorted."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def load(kind: str) -> SinkPlugin:
    """The plug-in of that kind; Fatal when there is none."""
    for point in entry_points(group=GROUP, name=kind):
        plugin: SinkPlugin = point.load()
        return plugin
    raise Fatal(
        f"there is no sink of kind {kind!r}",
        hint=f"Installed are: {', '.join(installed())}. A sink of another package is found once it is installed.",
    )


def load_exactly_once(kind: str) -> ExactlyOncePlugin:
    """The plug-in of that kind, which can publish exactly once; Fatal when it cannot."""
    plugin = load(kind)
    if not isinstance(plugin, ExactlyOncePlugin):
        raise Fatal(
            f"a sink of kind {kind!r} cannot publish exactly once",
            hint="Set delivery to at_least_once, and let consumers detect duplicates by the header `id`.",
        )
    return plugin


def load_read_back(kind: str, purpose: str) -> ReadBack:
    """The plug-in of that kind, which can read its topics; Fatal when it cannot. `purpose`: what that is for."""
    plugin = load(kind)
    if not isinstance(plugin, ReadBack):
        raise Fatal(
            f"{purpose} reads the topics, and a sink of kind {kind!r} has no way to do that",
            hint="So far the sink kafka has.",
        )
    return plugin


def load_makes_topics(kind: str) -> MakesTopics:
    """The plug-in of that kind, which can make topics; Fatal when it cannot."""
    plugin = load(kind)
    if not isinstance(plugin, MakesTopics):
        raise Fatal(f"a sink of kind {kind!r} has no topics to make", hint="Leave --topics out.")
    return plugin
