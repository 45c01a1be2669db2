"""`walrelay restart` and `drain` beside a relay that runs: nothing is lost, and nothing is left paused by accident."""

import signal
import subprocess
import sys
from threading import Event

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.acceptance.test_pause import is_paused, pause, resume, started, state
from tests.servers.ports import free_port
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.config import load
from walrelay.errors import Fatal
from walrelay.operations.pausing import Asking, Drain, DrainRequest, restart
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


def test_a_restart_that_dies_leaves_a_pause_that_ends(deployment: Deployment) -> None:
    relay = started(deployment)
    deployment.database.execute("ALTER TABLE walrelay.relays DISABLE TRIGGER notify_pause")
    restarting = subprocess.Popen([WALRELAY, "restart", "--config", deployment.config])
    wait_until(lambda: is_paused(deployment), 30, "the pause of the restart")
    restarting.kill()
    restarting.wait()
    relay.wait_for("paused")
    ((ends,),) = deployment.database.execute(
        "SELECT paused_until BETWEEN now() AND now() + interval '2 minutes' FROM walrelay.relays WHERE paused"
    )
    assert ends


def test_a_restart_ends_its_own_pause_and_no_other(deployment: Deployment) -> None:
    relay, contact = started(deployment), compose.wiring(load(deployment.config)).contact
    with Catalog(contact.dsn) as catalog:
        steps = restart(contact, catalog, "orders", "somebody", Event())
        assert next(steps).state == "paused"
        pause(deployment, "pause_reason = 'the broker is away', paused_until = NULL")
        with pytest.raises(Fatal, match="is paused already"):
            next(steps)
    assert is_paused(deployment), "whoever pauses it during a restart has it paused"
    relay.wait_for("paused", containing="the broker is away")


def test_a_restart_survives_the_loss_of_its_connection_and_leaves_no_pause(deployment: Deployment) -> None:
    relay, contact = started(deployment), compose.wiring(load(deployment.config)).contact
    with Catalog(contact.dsn) as catalog:
        steps = restart(contact, catalog, "orders", "somebody", Event())
        assert next(steps).state == "paused"
        deployment.database.execute("SELECT pg_terminate_backend(%s)", [catalog.connection.info.backend_pid])
        assert next(steps).state == "streaming"
    assert not is_paused(deployment)
    relay.wait_for("streaming", more_than=1)


def test_a_restart_whose_server_is_gone_says_what_ends_its_pause(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[Asking.__module__], "_AGAIN", 0.5)
    started(deployment)
    contact = compose.wiring(load(deployment.config)).contact
    with Catalog(contact.dsn) as catalog:
        nowhere = contact._replace(dsn=f"host=127.0.0.1 port={free_port()} dbname=x user=x")
        steps = restart(nowhere, catalog, "orders", "somebody", Event())
        assert next(steps).state == "paused"
        catalog.close()
        with pytest.raises(Fatal, match="stays paused until") as fatal:
            next(steps)
    assert "walrelay resume orders" in fatal.value.hint


def test_a_drain_survives_the_loss_of_its_connection(deployment: Deployment) -> None:
    relay, contact = started(deployment), compose.wiring(load(deployment.config)).contact
    relay.send(signal.SIGSTOP)
    try:
        written = deployment.write("1")
        with Catalog(contact.dsn) as catalog:
            draining = Drain(contact, catalog, "orders", DrainRequest("somebody"))
            deployment.database.execute("SELECT pg_terminate_backend(%s)", [catalog.connection.info.backend_pid])
            relay.send(signal.SIGCONT)
            assert sum(draining.steps(Event())) == draining.distance
    finally:
        relay.send(signal.SIGCONT)
    assert (draining.disobeyed, is_paused(deployment)) == ("", True)
    assert deployment.delivered_ids() == written


@pytest.mark.slow
def test_a_pause_that_the_leader_does_not_obey_is_only_asked_for(deployment: Deployment) -> None:
    relay = started(deployment)
    relay.send(signal.SIGSTOP)
    try:
        assert "is asked to pause by" in deployment.command("pause", exit_code=1)
        assert "has not reported within 10 s" in deployment.said("pause", exit_code=1)
    finally:
        relay.send(signal.SIGCONT)
    relay.wait_for("paused")
    assert "is paused by" in deployment.command("pause")


@pytest.mark.slow
def test_a_resumption_that_the_leader_does_not_report_is_only_asked_for(deployment: Deployment) -> None:
    relay, name = started(deployment), deployment.slot_name
    deployment.command("pause")
    relay.send(signal.SIGSTOP)
    try:
        assert deployment.command("resume", exit_code=1) == f"{name} is asked to resume\n"
        assert "has not reported within 10 s that it goes on" in deployment.said("resume", exit_code=1)
    finally:
        relay.send(signal.SIGCONT)
    assert deployment.command("resume") == f"{name} was not paused\n"
    assert state(deployment) == "streaming"


def test_a_relay_streams_when_its_resumption_is_told(deployment: Deployment) -> None:
    started(deployment)
    deployment.command("pause")
    assert deployment.command("resume") == f"{deployment.slot_name} is resumed\n"
    assert state(deployment) == "streaming"


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
