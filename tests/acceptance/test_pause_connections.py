"""A relay whose control connection is silent or gone obeys pauses and resumptions, and reports its state at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_pause import await_state, is_paused, pause, resume, started, state
from tests.servers.waiting import wait_until

CONTROL = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle'"
    " AND application_name = 'walrelay control' AND pid <> pg_backend_pid()"
    " AND (query LIKE '%%FROM walrelay.relays WHERE paused%%' OR query LIKE '%%walrelay.relays SET (state%%')"
)


def control_session(deployment: Deployment) -> int:
    """The PID of the session that listens for pauses and writes the state."""

    def found() -> int | None:
        rows = deployment.database.execute(CONTROL)
        return rows[0][0] if len(rows) == 1 else None

    pid = wait_until(found, 30, "one session that listens for pauses")
    assert pid is not None
    return pid


@contextmanager
def silent(pid: int) -> Iterator[None]:
    """As behind a proxy: TCP acknowledges what no server reads."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def write_wal(deployment: Deployment, megabytes: int = 40) -> None:
    deployment.database.execute(
        "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000)) FROM generate_series(1, %s)", [megabytes]
    )


def limit(deployment: Deployment) -> int:
    """So much WAL as the slot retains now, and some more."""
    ((retained,),) = deployment.database.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8 FROM pg_replication_slots"
        " WHERE slot_name = %s",
        [deployment.slot_name],
    )
    return int(retained) + 20_000_000


def test_a_resumption_is_seen_although_the_control_connection_is_silent(deployment: Deployment) -> None:
    relay = started(deployment)
    pause(deployment, f"pause_limit = {limit(deployment)}, at_pause_limit = 'drop_slot'")
    relay.wait_for("paused")
    with silent(control_session(deployment)):
        resume(deployment)
        write_wal(deployment)
        relay.wait_for("streaming", more_than=1)
        deployment.write("1")
        deployment.catch_up()
    assert assert_delivered(deployment).events == 1
    relay.stop()


def test_a_slot_is_not_dropped_while_an_operator_resumes_its_relay(deployment: Deployment) -> None:
    relay = started(deployment)
    pause(deployment, f"pause_limit = {limit(deployment)}, at_pause_limit = 'drop_slot'")
    relay.wait_for("paused")
    with deployment.database.connect(autocommit=False) as operator:
        operator.execute("UPDATE walrelay.relays SET paused = false WHERE slot_name = %s", [deployment.slot_name])
        write_wal(deployment)
        relay.wait_for("noticed", containing="the slot is not dropped")
    relay.wait_for("streaming", more_than=1)
    ((given_up,),) = deployment.database.execute("SELECT given_up FROM walrelay.relays")
    assert given_up is None
    deployment.write("1")
    deployment.catch_up()
    relay.stop()


def test_a_pause_is_obeyed_and_told_at_once_after_the_control_session_ended(deployment: Deployment) -> None:
    relay = started(deployment)
    deployment.database.execute("SELECT pg_terminate_backend(%s)", [control_session(deployment)])
    assert "is streaming after" in deployment.command("restart")
    pause(deployment)
    relay.wait_for("paused", more_than=1)
    wait_until(lambda: state(deployment) == "paused", 15, "'paused' in walrelay.relays")
    assert relay.events("noticed") == []
    relay.stop()


@pytest.mark.slow
def test_a_silent_control_connection_is_made_again(deployment: Deployment) -> None:
    relay = started(deployment)
    with silent(control_session(deployment)):
        pause(deployment)
        relay.wait_for("paused")
        await_state(deployment, "paused")
    relay.stop()


def test_a_pause_that_expired_without_a_leader_is_none(deployment: Deployment) -> None:
    started(deployment).stop()
    pause(deployment, "paused_until = now() - interval '1 second', pause_limit = 1, at_pause_limit = 'drop_slot'")
    relay = started(deployment)
    wait_until(lambda: not is_paused(deployment), 30, "the expired pause to be cleared")
    deployment.database.execute("UPDATE walrelay.relays SET paused = true, paused_until = now() - interval '1 second'")
    pause(deployment, "pause_reason = 'incident 42'")
    relay.wait_for("paused", containing="incident 42")
    rows = deployment.database.execute(
        "SELECT pause_reason, paused_until, pause_limit, at_pause_limit, paused_at > now() - interval '1 minute'"
        " FROM walrelay.relays"
    )
    assert rows == [("incident 42", None, None, "resume", True)]
    relay.stop()
