"""Passes of a clean-up over an outbox of the tests, and what is left in its table."""

import json
from collections.abc import Callable
from time import sleep
from typing import Any

import pytest

from tests.integration.relaying.harness import Outbox
from walrelay.operations.cleanup import CleanupReport, CleanupRequest, CleanupStep, cleaning

AT_ONCE: dict[str, Any] = {"source": {"publication_check_interval": 0.02}}
"""Settings with which a relay tells at once how far an idle server got."""

one_way = pytest.mark.parametrize("way", ["text"])  # the table is read in one way only


def publish(outbox: Outbox, *numbers: object) -> None:
    """Writes the rows, and returns when they are durable and confirmed."""
    outbox.write(*numbers)
    end = outbox.end_of_wal()
    with outbox.relay() as relay:
        relay.confirms(end)


def clean(
    outbox: Outbox,
    older_than: float | None = 0.0,
    *,
    at: Callable[[CleanupStep], object] = lambda step: None,
    **wish: Any,
) -> CleanupReport:
    """A whole pass, as fast as it can; `at` is called at each step."""
    wanted = CleanupRequest(older_than, **{"pace": 1.0, "patience": 5.0, **wish})
    with cleaning(outbox.wiring, wanted, sleep) as (steps, tally):
        for step in steps:
            at(step)
    return tally


def left(outbox: Outbox) -> list[Any]:
    """The payloads of the rows in the table, in their order."""
    rows = outbox.database.execute(f"SELECT payload::text FROM {outbox.wiring.table}")
    return sorted(json.loads(payload) for (payload,) in rows)
