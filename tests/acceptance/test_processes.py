"""`walrelay run --processes`: relays shared over processes, which stop together and are started again if they die."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_several_relays import assert_flows, lose_the_slot, together
from tests.servers.database import Database, Postgres
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until


@pytest.fixture
def orders(deploy: Deploy, database: Database, kafka: Kafka) -> Deployment:
    return deploy(database, kafka, kafka.create_topic())


@pytest.fixture
def invoices(deploy: Deploy, postgres: Postgres, kafka: Kafka) -> Iterator[Deployment]:
    second = postgres.create_database()
    yield deploy(second, kafka, kafka.create_topic())
    second.drop()


@pytest.fixture
def relay(tmp_path: Path, orders: Deployment, invoices: Deployment) -> RelayProcess:
    """Two relays in two processes, which stream."""
    parent = RelayProcess(together(tmp_path, orders=orders, invoices=invoices), "--processes", "2")
    for deployment in (orders, invoices):
        deployment.relays.append(parent)
        parent.wait_for("streaming", containing=deployment.slot_name)
    return parent


def pids(relay: RelayProcess) -> tuple[int, int]:
    """The newest processes, of orders and of invoices."""
    of = {each["relays"][0]: int(each["pid"]) for each in relay.events("process started")}
    assert len(of) == 2, "each has one relay"
    return of["orders"], of["invoices"]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_stop_drains_the_relays_of_all_processes(
    relay: RelayProcess, orders: Deployment, invoices: Deployment
) -> None:
    children = pids(relay)
    for deployment in (orders, invoices):
        deployment.write_rows(3000)
    for pid in (relay.pid, *children):  # systemd signals all of them at once, and a terminal does so too
        with suppress(ProcessLookupError):  # it did what its parent had said
            os.kill(pid, signal.SIGTERM)
    assert relay.wait() == 0, relay.log
    assert [each["unsettled"] for each in relay.events("stopped")] == [0, 0]
    assert all(map(gone, children))
    for deployment in (orders, invoices):
        deployment.start()
        deployment.catch_up()
        assert assert_delivered(deployment).duplicates == 0


def test_a_process_that_dies_is_told_of_and_started_again_and_the_other_goes_on(
    relay: RelayProcess, orders: Deployment, invoices: Deployment
) -> None:
    first, second = pids(relay)
    os.kill(first, signal.SIGKILL)
    died = relay.wait_for("process died")
    assert (died["relays"], died["pid"], died["signal"], died["level"]) == (["orders"], first, 9, "error")
    assert_flows(invoices)
    relay.wait_for("streaming", more_than=1, containing=orders.slot_name)
    assert_flows(orders)
    assert (pids(relay)[1], len(relay.events("process died"))) == (second, 1)
    relay.stop()


def test_when_the_parent_dies_its_processes_stop_in_good_order(relay: RelayProcess) -> None:
    children = pids(relay)
    os.kill(relay.pid, signal.SIGKILL)
    wait_until(lambda: all(map(gone, children)), 30, "the processes to end")
    relay.wait()
    assert [each["unsettled"] for each in relay.events("stopped")] == [0, 0]


def test_a_process_whose_relays_have_all_failed_stays_ended_and_the_exit_code_shows_it(
    relay: RelayProcess, orders: Deployment, invoices: Deployment
) -> None:
    lose_the_slot(orders)
    relay.wait_for("fatal", containing=orders.slot_name)
    lost = relay.wait_for("fatal", containing="has ended in an error: orders")
    assert lost["others_running"] == 1
    assert_flows(invoices)
    assert relay.events("process died") == []
    relay.send(signal.SIGTERM)
    assert relay.wait() == 1


def test_a_second_signal_to_the_parent_ends_all_at_once(
    tmp_path: Path, relay: RelayProcess, orders: Deployment, invoices: Deployment
) -> None:
    children = pids(relay)
    os.kill(children[0], signal.SIGSTOP)
    relay.send(signal.SIGTERM)
    relay.wait_for("stopped", containing=invoices.slot_name)
    relay.send(signal.SIGINT)
    os.kill(children[0], signal.SIGCONT)
    assert relay.wait() == 128 + signal.SIGINT
    assert all(map(gone, children))
