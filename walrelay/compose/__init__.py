"""Settings to a relay: the only package that names concrete classes."""

from walrelay.compose.commands import expected, lines, remarks, topics, wanted
from walrelay.compose.reading import binary_suits, dsn, plugin_options, publication, table
from walrelay.compose.refusals import dead_letters, letterbox, replay
from walrelay.compose.runs import Runs, relay_until
from walrelay.compose.skipping import Unreadable, unreadable

__all__ = [
    "Runs",
    "Unreadable",
    "binary_suits",
    "dead_letters",
    "dsn",
    "expected",
    "letterbox",
    "lines",
    "plugin_options",
    "publication",
    "relay_until",
    "remarks",
    "replay",
    "table",
    "topics",
    "unreadable",
    "wanted",
]
