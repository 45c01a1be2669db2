"""Several instances with one file of several relays: each leads its share, whoever comes or goes."""

import copy
import json
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import yaml

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY, RelayProcess
from tests.acceptance.watching import Watcher
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker
from tests.servers.database import Database, Postgres
from tests.servers.topics import Kafka, Received
from tests.servers.waiting import wait_until
from walrelay.lsn import LSN

CHANGES = ("streaming", "stopped", "retrying", "fatal")


class Fleet:
    """Instances of one file, with `each` relays of every deployment's outbox: a slot and a topic for every relay."""

    def __init__(self, directory: Path, each: int, *deployments: Deployment) -> None:
        self.relays: dict[str, Deployment] = {}
        settings: dict[str, dict[str, Any]] = {}
        for number, deployment in enumerate(deployments):
            for n in range(each):
                name, relay = f"r{number}-{n}", copy.copy(deployment)
                settings[name] = yaml.safe_load(deployment.config.read_text())
                settings[name].pop("log")
                if n:
                    relay.topic = deployment.kafka.create_topic()
                    slot = f"{deployment.slot_name}_{n}"
                    deployment.database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
                    settings[name]["source"]["slot"] = slot
                    settings[name]["route"]["topic"] = relay.topic
                self.relays[name] = relay
        self._config = directory / "relays.yaml"
        defaults = {"log": {"format": "json"}, "http": {"listen": "127.0.0.1:0"}}
        self._config.write_text(yaml.safe_dump({"defaults": defaults, "relays": settings}))
        self._first = deployments[0]
        self.instances: list[RelayProcess] = []

    def join(self) -> RelayProcess:
        instance = RelayProcess(self._config)
        self._first.relays.append(instance)  # which ends it with the test
        self.instances.append(instance)
        return instance

    def leave(self, instance: RelayProcess, farewell: signal.Signals) -> set[str]:
        """What it led when it was told to go."""
        led = self.led(instance)
        self.instances.remove(instance)
        instance.send(farewell)
        assert instance.wait() == (0 if farewell == signal.SIGTERM else -farewell)
        return led

    def led(self, instance: RelayProcess) -> set[str]:
        """The relays that it leads, by its log."""
        last = {entry["relay"]: entry["event"] for entry in list(instance.log) if entry["event"] in CHANGES}
        return {name for name, event in last.items() if event == "streaming"}

    def wait_for_shares(self, timeout: float = 60) -> float:
        """Returns when every relay is led, and the shares are within one of even; after how many seconds."""
        begun = monotonic()
        least, more = divmod(len(self.relays), len(self.instances))
        even = [least] * (len(self.instances) - more) + [least + 1] * more

        def shared_out() -> bool:
            led = [self.led(instance) for instance in self.instances]
            return sorted(map(len, led)) == even and set().union(*led) == self.relays.keys()

        wait_until(shared_out, timeout, f"the shares to be {even}")
        return round(monotonic() - begun, 2)

    def wait_for_leaders(self, names: set[str]) -> list[float]:
        """Until each of these relays is led; after how many seconds each was."""
        begun, after = monotonic(), dict[str, float]()

        def all_led() -> bool:
            for name in {name for instance in self.instances for name in self.led(instance)} & names - after.keys():
                after[name] = round(monotonic() - begun, 2)
            return after.keys() == names

        wait_until(all_led, 60, f"leaders for {names}")
        return sorted(after.values())

    def status(self, relay: str) -> str:
        words = [str(WALRELAY), "status", "--config", str(self._config), "--relay", relay]
        return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout

    def catch_up(self) -> None:
        for database in {relay.database.name: relay.database for relay in self.relays.values()}.values():
            ((end,),) = database.execute("SELECT pg_current_wal_insert_lsn()::text")
            wait_until(partial(_confirmed, database, end), 60, f"all slots of {database.name} to confirm {end}")


def _confirmed(database: Database, end: str) -> bool:
    slots = "FROM pg_replication_slots WHERE database = current_database()"
    return not database.execute(f"SELECT slot_name {slots} AND confirmed_flush_lsn < %s", [end])


def steps_back(messages: list[Received]) -> int:
    """How often a topic of one partition went back to an earlier position: once for each leader that repeats."""
    positions = []
    for message in messages:
        lsn, _, ordinal = (dict(message.headers)["position"] or b"").decode().partition(":")
        positions.append((LSN.parse(lsn), int(ordinal)))
    return sum(after <= before for before, after in pairwise(positions))


def under_load(
    fleet: Fleet, databases: list[Database], measured: Measured, within: float = 1, *, repeats: bool = True
) -> None:
    """Instances come and go while events are written: nothing is lost, the order of a key is kept, only a death
    repeats (where `repeats`), and never do two lead. `within`: seconds for half of what a killed instance led to be led
    again.
    """
    first = fleet.join()
    measured("one instance leads all, seconds", fleet.wait_for_shares())
    writers = [Writers(database, seed=number, threads=1, pause=0.01) for number, database in enumerate(databases)]
    for each in writers:
        each.start()
    try:
        fleet.join()
        third = fleet.join()
        measured("two instances joined, seconds until the shares are even", fleet.wait_for_shares())
        _wait_for_more(writers)
        orphaned = fleet.leave(third, signal.SIGKILL)
        after = fleet.wait_for_leaders(orphaned)
        measured(f"kill -9 of a leader of {len(orphaned)}, seconds until each was led again", after)
        assert after[len(after) // 2] < within
        fleet.wait_for_shares()
        _wait_for_more(writers)
        fleet.join()
        measured("an instance joined again", fleet.wait_for_shares())
        _wait_for_more(writers)
        handed_over = fleet.leave(first, signal.SIGTERM)
        measured(f"SIGTERM to a leader of {len(handed_over)}", fleet.wait_for_leaders(handed_over))
        fleet.wait_for_shares()
        _wait_for_more(writers)
    finally:
        for each in writers:
            each.stop()
    fleet.catch_up()
    by_database = {database.name: each for database, each in zip(databases, writers, strict=True)}
    for name, relay in fleet.relays.items():
        delivery = assert_delivered(relay, by_database[relay.database.name])
        back = steps_back(relay.delivered())
        assert back <= (repeats and name in orphaned), f"{name} repeated {delivery.duplicates} events, {back} times"


def _wait_for_more(writers: list[Writers]) -> None:
    for each in writers:
        each.wait_for_more(50)


@pytest.fixture
def second(postgres: Postgres) -> Iterator[Database]:
    """Another database of the same server."""
    fresh = postgres.create_database()
    yield fresh
    fresh.drop()


@pytest.mark.parametrize("delivery", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.slow)])
def test_each_instance_leads_its_share_whoever_comes_or_goes(
    tmp_path: Path,
    deploy: Deploy,
    database: Database,
    second: Database,
    kafka: Kafka,
    measured: Measured,
    delivery: str,
) -> None:
    databases = [database, second]
    fleet = Fleet(tmp_path, 4, *(deploy(each, kafka, kafka.create_topic(), delivery=delivery) for each in databases))
    once = delivery == "exactly_once"
    under_load(fleet, databases, measured, within=30 if once else 1, repeats=not once)


def test_leads_move_on_a_server_that_has_no_connection_for_whoever_waits(
    tmp_path: Path, deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka
) -> None:
    """max_wal_senders is 10 where nobody sets it, and ten relays use all of them."""
    database = private_postgres(max_wal_senders=4).create_database()
    fleet = Fleet(tmp_path, 4, deploy(database, kafka, kafka.create_topic()))
    first = fleet.join()
    fleet.wait_for_shares()
    second = fleet.join()
    fleet.wait_for_shares()
    assert "leads, 0 standing by; 2 instances have it among their relays" in fleet.status("r0-0")
    for instance in (first, second):  # the first one gave up two leads
        watcher = Watcher(instance)
        wait_until(watcher.all_ready, 60, "all relays to be well")
        states = sorted(each["state"] for each in json.loads(watcher.get("/readyz")[1])["relays"])
        assert states == ["standing by", "standing by", "streaming", "streaming"]
    fleet.leave(first, signal.SIGTERM)
    fleet.wait_for_shares()
    assert "leads, 0 standing by; 1 instance has it among its relays" in fleet.status("r0-0")
    assert {entry["relay"] for entry in second.events("standing by")} == fleet.relays.keys()


@pytest.mark.chaos
def test_fifty_relays_of_three_instances(
    tmp_path: Path, deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, measured: Measured
) -> None:
    server = private_postgres(max_replication_slots=50, max_wal_senders=50, max_connections=200)
    databases = [server.create_database() for _ in range(2)]
    fleet = Fleet(tmp_path, 25, *(deploy(each, kafka, kafka.create_topic()) for each in databases))
    under_load(fleet, databases, measured, within=5)  # two cores for everything


@pytest.mark.chaos
def test_what_a_frozen_instance_led_is_led_by_the_others_until_it_wakes_up(
    tmp_path: Path, deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, measured: Measured
) -> None:
    database = private_postgres(wal_sender_timeout="2s").create_database()
    fleet = Fleet(tmp_path, 4, deploy(database, kafka, kafka.create_topic()))
    first, _ = fleet.join(), fleet.join()
    fleet.wait_for_shares()
    with Writers(database, seed=1, threads=1, pause=0.01) as writers:
        writers.wait_for_more(100)
        held = fleet.led(first)
        first.send(signal.SIGSTOP)
        fleet.instances.remove(first)
        measured("a frozen leader (wal_sender_timeout 2 s), seconds until others lead", fleet.wait_for_leaders(held))
        writers.wait_for_more(100)
        fleet.instances.append(first)
        first.send(signal.SIGCONT)
        measured("it woke up, seconds until shares are even", fleet.wait_for_shares(120))
        writers.wait_for_more(100)
    fleet.catch_up()
    for relay in fleet.relays.values():
        assert_delivered(relay, writers)
