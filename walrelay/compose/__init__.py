"""Settings to a relay: the only package that names concrete classes."""

from walrelay.compose.audit import Period, audit
from walrelay.compose.backfill import backfill_until
from walrelay.compose.cleanup import cleaning
from walrelay.compose.commands import lines, remarks, topics, wanted
from walrelay.compose.examination import BY_ANOTHER_ROLE, expected, refuse, told
from walrelay.compose.making_topics import make_topics, named_topics
from walrelay.compose.positions import begin_at, kept_positions, position_findings
from walrelay.compose.reading import binary_suits, dsn, plugin_options, publication, table
from walrelay.compose.recovery import Recovery, Wish, recovery_plan
from walrelay.compose.refusals import dead_letters, letterbox, redelivery
from walrelay.compose.replay import replay_until
from walrelay.compose.replay_plan import ReplayPlan, Wanted, position_range, replay_plan
from walrelay.compose.runs import Runs, relay_until
from walrelay.compose.skipping import Unreadable, unreadable

__all__ = [
    "BY_ANOTHER_ROLE",
    "Period",
    "Recovery",
    "ReplayPlan",
    "Runs",
    "Unreadable",
    "Wanted",
    "Wish",
    "audit",
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
    "make_topics",
    "named_topics",
    "plugin_options",
    "position_findings",
    "position_range",
    "publication",
    "recovery_plan",
    "redelivery",
    "refuse",
    "relay_until",
    "remarks",
    "replay_plan",
    "replay_until",
    "table",
    "told",
    "topics",
    "unreadable",
    "wanted",
]
