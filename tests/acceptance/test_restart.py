"""`walrelay restart` and `drain` beside a relay that runs: nothing is lost, and nothing is left paused by accident."""

import signal
from threading import Event

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_pause import is_paused, pause, resume, started
from walrelay import compose
from walrelay.config import load
from walrelay.errors import Disconnected, Fatal
from walrelay.operations.pausing import restart
from walrelay.postgres.catalog import Catalog


def test_a_restart_begins_anew_in_the_same_process(deployment: Deployment) -> None:
    relay = started(deployment)
    deployment.write("1", "2")
    told = deployment.command("restart")
    assert f"{deployment.slot_name} is paused after" in told
    assert f"{deployment.slot_name} is streaming after" in told
    relay.wait_for("streaming", more_than=1)
    assert relay.events("paused")[0]["why"].partition(";")[0].endswith(": restart")
    deployment.write("3")
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 0
    pause(deployment)
    assert "is paused already" in deployment.said("restart", exit_code=1)
    assert is_paused(deployment)
    relay.stop()
    resume(deployment)
    assert "no instance leads" in deployment.said("restart", exit_code=1)
    assert not is_paused(deployment)


def test_a_restart_ends_its_own_pause_and_no_other_and_leaves_one_that_ends_if_it_dies(deployment: Deployment) -> None:
    relay, wiring = started(deployment), compose.wiring(load(deployment.config))
    with Catalog(wiring.dsn) as catalog:
        steps = restart(wiring, catalog, "orders", "somebody", Event())
        assert next(steps).state == "paused"
    with pytest.raises(Disconnected):
        next(steps)
    relay.wait_for("paused")
    ((ends,),) = deployment.database.execute(
        "SELECT paused_until BETWEEN now() AND now() + interval '2 minutes' FROM walrelay.relays WHERE paused"
    )
    assert ends
    resume(deployment)
    relay.wait_for("streaming", more_than=1)
    with Catalog(wiring.dsn) as catalog:
        steps = restart(wiring, catalog, "orders", "somebody", Event())
        assert next(steps).state == "paused"
        pause(deployment, "pause_reason = 'the broker is away', paused_until = NULL")
        with pytest.raises(Fatal, match="is paused already"):
            next(steps)
    assert is_paused(deployment), "whoever pauses it during a restart has it paused"


def test_a_drain_publishes_what_was_committed_and_pauses(deployment: Deployment) -> None:
    relay = started(deployment)
    written = deployment.write(*"123456789")
    told = deployment.command("drain", "--reason", "the broker is upgraded")
    assert "has published everything up to" in told
    assert ": the broker is upgraded" in told
    assert deployment.delivered_ids() == written
    deployment.write("10")
    relay.wait_for("paused")
    assert is_paused(deployment)
    assert deployment.delivered_ids() == written
    assert "confirms nothing" in deployment.said("drain", exit_code=1)
    resume(deployment)
    assert "is paused" not in deployment.command("drain", "--no-pause")
    assert not is_paused(deployment)
    assert assert_delivered(deployment).duplicates == 0


def test_a_drain_that_takes_too_long_pauses_nothing(deployment: Deployment) -> None:
    relay = started(deployment)
    relay.send(signal.SIGSTOP)
    try:
        deployment.write("1")
        assert "after 1 s; it is not paused" in deployment.said("drain", "--timeout", "1", exit_code=1)
    finally:
        relay.send(signal.SIGCONT)
    assert not is_paused(deployment)
    deployment.catch_up()
