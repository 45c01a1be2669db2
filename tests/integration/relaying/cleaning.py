"""Passes of a clean-up over an outbox of the tests, and what is left in its table."""

import json
from collections.abc import Callable
from time import sleep
from typing import Any

from tests.integration.relaying.harness import Outbox
from walrelay import compose
from walrelay.source.cleanup import CleanupWish, Step, Tally


def clean(
    outbox: Outbox, older_than: float | None = 0.0, *, at: Callable[[Step], object] = lambda step: None, **wish: Any
) -> Tally:
    """A whole pass, as fast as it can; `at` is called at each step."""
    wanted = CleanupWish(older_than, **{"pace": 1.0, "patience": 5.0, **wish})
    with compose.cleaning(outbox.settings, wanted, sleep) as (steps, tally):
        for step in steps:
            at(step)
    return tally


def left(outbox: Outbox) -> list[Any]:
    """The payloads of the rows in the table, in their order."""
    rows = outbox.database.execute(f"SELECT payload::text FROM {compose.table(outbox.settings)}")
    return sorted(json.loads(payload) for (payload,) in rows)
