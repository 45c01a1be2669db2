"""The state of a relay, why, and what to do, from what the table and the server know of it."""

import pytest

from walrelay.control.state import RelayFacts, relay_state

FLOWS = RelayFacts("orders", "streaming", 1.0, led=True, active=True)
RETRIES = FLOWS._replace(reported="retrying", error="RabbitMQ cannot be reached", active=False)
PAUSED = FLOWS._replace(reported="paused", active=False, pause="by ada: upgrade", pause_age=60.0)


def test_a_relay_that_streams_is_well() -> None:
    assert relay_state(FLOWS)[:3] == ("streaming", "ok", "")


@pytest.mark.parametrize(
    ("facts", "state", "level", "why", "todo"),
    [
        (FLOWS._replace(slot=False), "no slot", "critical", "its slot is gone", "recover --dry-run"),
        (RelayFacts("orders", "not started", slot=False), "no slot", "warning", "never started", "walrelay init"),
        (FLOWS._replace(wal_status="lost"), "streaming", "critical", "its slot is lost", "recover"),
        (FLOWS._replace(reported="waiting", error="no room"), "waiting", "warning", "nothing: no room", "goes on"),
        (FLOWS._replace(reported="waiting", waits="b: full"), "waiting", "warning", "nothing: b: full", "doctor"),
        (RETRIES, "retrying", "warning", "cannot be reached", "tries again by itself"),
        (RETRIES._replace(led=False), "retrying", "warning", "cannot be reached", "tries again by itself"),
        (RETRIES._replace(led=False, age=600.0), "not running", "critical", "no instance leads", "walrelay run"),
        (FLOWS._replace(led=False, active=False), "not running", "critical", "no instance leads", "walrelay run"),
        (FLOWS._replace(led=False, reported="stopped"), "stopped", "critical", "no instance leads", "walrelay run"),
        (FLOWS._replace(led=False, reported="failed", error="row 7"), "failed", "critical", "row 7", "doctor"),
        (PAUSED, "paused", "warning", "paused by ada: upgrade", "walrelay resume orders"),
        (PAUSED._replace(name="x; rm ~"), "paused", "warning", "paused by ada", "walrelay resume 'x; rm ~'"),
        (PAUSED._replace(led=False), "paused", "warning", "one that starts finds the pause", "walrelay resume"),
        (PAUSED._replace(reported="streaming"), "streaming", "warning", "has not reported", "earlier version"),
        (PAUSED._replace(active=True), "streaming", "warning", "has not reported", "earlier version"),
        (PAUSED._replace(reported="waiting", pause_age=1.0), "waiting", "warning", "asked to pause", "resume orders"),
        (PAUSED._replace(wal_status="lost"), "paused", "critical", "lost", "recover"),
    ],
)
def test_a_state_has_its_reason_and_its_command(facts: RelayFacts, state: str, level: str, why: str, todo: str) -> None:
    found = relay_state(facts)
    assert (found.state, found.level) == (state, level)
    assert why in found.why
    assert todo in found.todo


@pytest.mark.parametrize("reported", ["not started", "stopped", "failed", "paused"])
def test_a_leader_of_an_earlier_version_reports_nothing_and_streams(reported: str) -> None:
    assert relay_state(FLOWS._replace(reported=reported, age=9999.0)).state == "streaming"
