"""`walrelay replay`: rows of the table published again."""

from walrelay.operations.replay.journal import ListedReplay, ReplayRequest, drop_replay, unfinished_replays
from walrelay.operations.replay.plan import ReplayPlan, plan_replay, position_range
from walrelay.operations.replay.run import run_replay

__all__ = [
    "ListedReplay",
    "ReplayPlan",
    "ReplayRequest",
    "drop_replay",
    "plan_replay",
    "position_range",
    "run_replay",
    "unfinished_replays",
]
