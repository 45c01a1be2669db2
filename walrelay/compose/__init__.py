"""Settings to a relay: the only package that names concrete classes."""

from walrelay.compose.backfill import backfill_until
from walrelay.compose.commands import expected, lines, remarks, topics, wanted
from walrelay.compose.reading import binary_suits, dsn, plugin_options, publication, table
from walrelay.compose.runs import Runs, relay_until

__all__ = [
    "Runs",
    "backfill_until",
    "binary_suits",
    "dsn",
    "expected",
    "lines",
    "plugin_options",
    "publication",
    "relay_until",
    "remarks",
    "table",
    "topics",
    "wanted",
]
