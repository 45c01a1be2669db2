"""Which relays somebody has to look at, why, and what to do."""

import pytest

from walrelay.operations.overview import RelayGlance, judged
from walrelay.operations.overview.judgement import duration

FLOWS = RelayGlance("orders", "orders", "streaming", "db:1", "0/1", 0, 0.0, 0, None, None, "2026-11-24", False)
PAUSED = FLOWS._replace(
    state="paused", paused=True, level="warning", why="paused by ada: upgrade", todo="walrelay resume orders"
)
ENDED = FLOWS._replace(state="failed", level="critical", why="row 7", todo="walrelay doctor")
WAITS = FLOWS._replace(state="waiting", level="warning", why="its sink takes nothing: away", todo="walrelay doctor")


def test_a_relay_that_flows_is_well() -> None:
    assert judged(FLOWS, None) == ("ok", "nothing waits", "")
    assert judged(FLOWS._replace(lag_bytes=2048), 90_000.0).level == "ok"


@pytest.mark.parametrize(
    ("relay", "safe", "level", "why", "todo"),
    [
        (ENDED, None, "critical", "row 7", "doctor"),
        (ENDED, 1800.0, "critical", "row 7", "doctor"),
        (FLOWS._replace(wal_status="unreserved"), None, "critical", "next checkpoint", "status"),
        (FLOWS, 1800.0, "critical", "30 min", "doctor"),
        (PAUSED, 1800.0, "critical", "while it is paused", "resume orders"),
        (PAUSED, None, "warning", "by ada: upgrade", "resume orders"),
        (PAUSED._replace(lag_seconds=125.0), None, "warning", "by ada: upgrade", "resume orders"),
        (WAITS, None, "warning", "its sink takes nothing: away", "doctor"),
        (WAITS._replace(lag_seconds=125.0), None, "critical", "2 min: its sink takes nothing: away", "doctor"),
        (FLOWS._replace(lag_seconds=7.0), None, "warning", "7 s", "doctor"),
        (FLOWS._replace(lag_seconds=125.0), None, "critical", "2 min", "doctor"),
        (FLOWS._replace(dead_letters=1), None, "warning", "1 dead letter waits", "dlq list"),
        (FLOWS._replace(dead_letters=1234), None, "warning", "1,234 dead letters wait", "dlq list"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(
    relay: RelayGlance, safe: float | None, level: str, why: str, todo: str
) -> None:
    found = judged(relay, safe)
    assert found.level == level
    assert why in found.why
    assert todo in found.todo


def test_a_late_relay_says_what_it_waits_for() -> None:
    assert judged(FLOWS._replace(lag_seconds=90.0), None, "nothing was acknowledged").why.endswith(
        ": nothing was acknowledged"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (7500, "2 h 5 min"),
        (7200, "2 h"),
        (200_000, "2 days"),
    ],
)
def test_a_time_is_told_as_people_do(seconds: float, text: str) -> None:
    assert duration(seconds) == text
