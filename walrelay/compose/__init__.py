"""Settings to a relay: the only package that names concrete classes."""

from walrelay.compose.backfill import backfill_until
from walrelay.compose.cleanup import cleaning
from walrelay.compose.commands import expected, lines, remarks, topics, wanted
from walrelay.compose.positions import begin_at, kept_positions, position_findings
from walrelay.compose.reading import binary_suits, dsn, plugin_options, publication, table
from walrelay.compose.recovery import Recovery, Wish, recovery_plan
from walrelay.compose.refusals import dead_letters, letterbox, replay
from walrelay.compose.runs import Runs, relay_until
from walrelay.compose.skipping import Unreadable, unreadable

__all__ = [
    "Recovery",
    "Runs",
    "Unreadable",
    "Wish",
    "backfill_until",
    "begin_at",
    "binary_suits",
    "cleaning",
    "dead_letters",
    "dsn",
    "expected",
    "kept_positions",
    "letterbox",
    "lines",
    "plugin_options",
    "position_findings",
    "publication",
    "recovery_plan",
    "relay_until",
    "remarks",
    "replay",
    "table",
    "topics",
    "unreadable",
    "wanted",
]
