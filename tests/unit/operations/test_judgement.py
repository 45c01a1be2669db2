"""Which relays somebody has to look at, why, and what to do."""

import pytest

from walrelay.operations.overview import RelayGlance, judged
from walrelay.operations.overview.judgement import duration

FLOWS = RelayGlance("orders", "orders", "streaming", "db:1", "0/1", 0, 0.0, 0, None, None, "2026-11-24", False)
PAUSED = FLOWS._replace(state="paused", paused=True, paused_by="ada", pause_reason="upgrade")


def test_a_relay_that_flows_is_well() -> None:
    assert judged(FLOWS, None) == ("ok", "nothing waits", "")
    assert judged(FLOWS._replace(lag_bytes=2048), 90_000.0).level == "ok"


@pytest.mark.parametrize(
    ("relay", "safe", "level", "why", "todo"),
    [
        (FLOWS._replace(state="no slot"), None, "critical", "gone", "recover"),
        (FLOWS._replace(state="no slot", updated_at=None), None, "warning", "never started", "init"),
        (FLOWS._replace(wal_status="lost"), None, "critical", "lost", "recover"),
        (FLOWS._replace(wal_status="unreserved"), None, "critical", "next checkpoint", "status"),
        (FLOWS._replace(state="failed", last_error="row 7"), None, "critical", "row 7", "doctor"),
        (FLOWS._replace(state="not running", instance=None), None, "critical", "no instance", "run"),
        (FLOWS._replace(state="stopped", instance=None), None, "critical", "no instance", "run"),
        (FLOWS, 1800.0, "critical", "30 min", "doctor"),
        (PAUSED, 1800.0, "critical", "while it is paused", "resume orders"),
        (PAUSED, None, "warning", "by ada: upgrade", "resume orders"),
        (PAUSED._replace(name="x; rm -r ~"), None, "warning", "by ada: upgrade", "resume 'x; rm -r ~'"),
        (PAUSED._replace(instance=None), None, "warning", "by ada", "resume orders"),
        (FLOWS._replace(state="retrying", last_error="broker away"), None, "warning", "broker away", "doctor"),
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
