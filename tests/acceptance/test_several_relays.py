"""Several relays in one process: each keeps its troubles to itself, and its name is on every line of the log."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

TOO_LARGE = '"' + "x" * 1_200_000 + '"'  # above the client's limit


def together(directory: Path, **deployments: Deployment) -> Path:
    """One file with the relays of these deployments."""
    each: dict[str, dict[str, Any]] = {
        name: yaml.safe_load(deployment.config.read_text()) for name, deployment in deployments.items()
    }
    shared = {"log": [settings.pop("log") for settings in each.values()][-1], "retry": {"max_pause": 1}}
    path = directory / "relays.yaml"
    path.write_text(yaml.safe_dump({"defaults": shared, "relays": each}))
    return path


def run(config: Path, *deployments: Deployment) -> RelayProcess:
    """The process in which all of them stream."""
    relay = RelayProcess(config)
    for deployment in deployments:
        deployment.relays.append(relay)
        relay.wait_for("streaming", containing=deployment.slot_name)
    return relay


def of(name: str, relay: RelayProcess, event: str) -> list[dict[str, Any]]:
    return [each for each in relay.events(event) if each["relay"] == name]


def assert_flows(deployment: Deployment) -> None:
    """An event arrives as if it were the only relay of the process."""
    (written,) = deployment.write("1")
    deployment.catch_up(timeout=15)
    assert deployment.delivered_ids()[-1] == written


@pytest.fixture
def orders(deploy: Deploy, database: Database, kafka: Kafka) -> Deployment:
    return deploy(database, kafka, kafka.create_topic())


@pytest.fixture
def invoices(deploy: Deploy, second: Database, kafka: Kafka) -> Deployment:
    return deploy(second, kafka, kafka.create_topic())


def test_sigterm_drains_all_relays_and_every_line_of_the_log_names_its_relay(
    tmp_path: Path, orders: Deployment, invoices: Deployment
) -> None:
    relay = run(together(tmp_path, orders=orders, invoices=invoices), orders, invoices)
    for deployment in (orders, invoices):
        deployment.write_rows(3000)
    relay.stop()
    assert {each["relay"] for each in relay.log} == {"orders", "invoices"}
    for name, deployment in (("orders", orders), ("invoices", invoices)):
        assert len(of(name, relay, "stopped")) == 1, relay.log
        deployment.start()
        deployment.catch_up()
        assert assert_delivered(deployment).duplicates == 0


def poison(deployment: Deployment) -> None:
    deployment.write(TOO_LARGE)


def lose_the_slot(deployment: Deployment) -> None:
    slot = deployment.slot_name

    def dropped() -> bool:
        """The relay may have connected again in between."""
        deployment.database.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s", [slot]
        )
        deployment.database.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active",
            [slot],
        )
        return not deployment.database.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [slot])

    wait_until(dropped, 30, "the slot to be dropped")


@pytest.mark.parametrize("trouble", [poison, lose_the_slot])
def test_what_stops_one_relay_does_not_delay_the_other_and_shows_in_the_exit_code(
    trouble: Callable[[Deployment], None], tmp_path: Path, orders: Deployment, invoices: Deployment
) -> None:
    relay = run(together(tmp_path, orders=orders, invoices=invoices), orders, invoices)
    trouble(orders)
    fatal = relay.wait_for("fatal")
    assert (fatal["relay"], fatal["others_running"], fatal["level"]) == ("orders", 1, "error")
    for _ in range(3):
        assert_flows(invoices)
    told = [each["event"] for each in relay.log if each["relay"] == "invoices"]
    assert [event for event in told if event != "relayed"] == ["streaming"]  # that one comes now and then
    relay.send(signal.SIGTERM)
    assert relay.wait() == 1, "something outside has to see that one of them had ended"
    assert len(of("invoices", relay, "stopped")) == 1


def test_a_broker_that_is_away_from_one_relay_does_not_delay_the_other(
    tmp_path: Path, deploy: Deploy, database: Database, invoices: Deployment, broker: KafkaServer
) -> None:
    orders = deploy(database, broker, broker.create_topic())
    relay = run(together(tmp_path, orders=orders, invoices=invoices), orders, invoices)
    broker.stop()
    written = orders.write("1", "2")
    relay.wait_for("stalled")
    for _ in range(3):
        assert_flows(invoices)
    assert {each["relay"] for event in ("stalled", "broker away") for each in relay.events(event)} == {"orders"}
    broker.start()
    orders.catch_up()
    assert orders.delivered_ids() == written
    relay.stop()


def test_when_the_last_relay_has_ended_the_process_ends_with_1(
    tmp_path: Path, orders: Deployment, invoices: Deployment
) -> None:
    relay = run(together(tmp_path, orders=orders, invoices=invoices), orders, invoices)
    lose_the_slot(orders)
    lose_the_slot(invoices)
    assert relay.wait() == 1
    assert {each["relay"] for each in relay.events("fatal")} == {"orders", "invoices"}


def test_relays_that_are_named_run_and_the_others_do_not(
    tmp_path: Path, orders: Deployment, invoices: Deployment
) -> None:
    config = together(tmp_path, orders=orders, invoices=invoices)
    relay = RelayProcess(config, "--relay", "invoices")
    invoices.relays.append(relay)
    relay.wait_for("streaming", containing=invoices.slot_name)
    assert_flows(invoices)
    assert orders.slot.pid is None
    relay.stop()
    assert {each["relay"] for each in relay.log} == {"invoices"}
