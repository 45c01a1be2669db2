"""The guarantees with two relays in a process, one of them with rules: whatever dies, each delivers all it has to."""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_several_relays import TOO_LARGE, together
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.servers.topics import Kafka


class Pair(NamedTuple):
    """Two relays of one file, on two databases of a server: `orders` as it is, `invoices` with rules."""

    config: Path
    kafka: Kafka
    orders: Deployment
    invoices: Deployment

    def start(self) -> RelayProcess:
        """The process in which both stream."""
        relay = RelayProcess(self.config)
        self.orders.relays.append(relay)
        self.invoices.relays.append(relay)
        self.streams(relay)
        return relay

    def streams(self, relay: RelayProcess, *, again: int = 0) -> None:
        for name in ("orders", "invoices"):
            relay.wait_for("streaming", more_than=again, containing=f'"relay": "{name}"')

    def catch_up(self) -> None:
        self.orders.catch_up()
        self.invoices.catch_up()


class Load:
    """Writers in both databases."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.orders = Writers(pair.orders.database, seed=seed)
        self.invoices = Writers(pair.invoices.database, seed=seed)
        self._both = ExitStack()

    def __enter__(self) -> "Load":
        self._both.enter_context(self.orders)
        self._both.enter_context(self.invoices)
        return self

    def __exit__(self, *_: object) -> None:
        self._both.close()

    def goes_on(self) -> None:
        self.orders.wait_for_more(100)
        self.invoices.wait_for_more(100)

    def assert_delivered(self) -> int:
        """By both; how many messages were repeated."""
        orders, invoices = self.pair.orders, self.pair.invoices
        other_topics = [f"{invoices.topic}.first"]
        assert invoices.kafka.read_all(*other_topics), "no rule was followed"
        done = assert_delivered(orders, self.orders), assert_delivered(invoices, self.invoices, other_topics)
        return sum(each.duplicates for each in done)


def rules(topic: str) -> list[dict[str, Any]]:
    """One topic for a key, headers by a JSON path, and all others as they are."""
    return [
        {"name": "first", "when": {"aggregate_id": "key-0"}, "topic": f"{topic}.first"},
        {"name": "round", "when": {"payload.number": {"regex": "0$"}}, "headers": {"set": {"kind": "{type|kebab}"}}},
        {"name": "others"},
    ]


def two_relays(
    deploy: Deploy, databases: tuple[Database, Database], kafka: Kafka, directory: Path, **sections: Any
) -> Pair:
    first, second = kafka.create_topic(partitions=3), kafka.create_topic(partitions=3)
    kafka.create_topic(f"{second}.first")
    orders = deploy(databases[0], kafka, first, **sections)
    invoices = deploy(databases[1], kafka, second, routes=rules(second), **sections)
    return Pair(together(directory, orders=orders, invoices=invoices), kafka, orders, invoices)


def of_one_server(server: PostgresServer) -> tuple[Database, Database]:
    return server.create_database(), server.create_database()


def killed(pair: Pair, relay: RelayProcess, load: Load) -> RelayProcess:
    relay.kill()
    return pair.start()


def stopped(pair: Pair, relay: RelayProcess, load: Load) -> RelayProcess:
    relay.stop()
    assert [each["unsettled"] for each in relay.events("stopped")] == [0, 0]
    return pair.start()


def postgres_crashed(pair: Pair, relay: RelayProcess, load: Load) -> RelayProcess:
    before = len(relay.events("streaming"))
    server = pair.orders.database.server
    assert isinstance(server, PostgresServer)
    server.restart("immediate", timeout=10)
    pair.streams(relay, again=before // 2)
    return relay


def broker_killed(pair: Pair, relay: RelayProcess, load: Load) -> RelayProcess:
    assert isinstance(pair.kafka, KafkaServer)
    pair.kafka.kill()
    load.goes_on()
    pair.kafka.start()
    return relay


Trouble = Callable[[Pair, RelayProcess, Load], RelayProcess]


def survived(pair: Pair, troubles: Sequence[Trouble], delivery: str) -> None:
    with Load(pair, seed=60) as load:
        relay = pair.start()
        for trouble in troubles:
            load.goes_on()
            relay = trouble(pair, relay, load)
        load.goes_on()
    pair.catch_up()
    repeated = load.assert_delivered()
    assert delivery == "at_least_once" or repeated == 0
    relay.stop()


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_two_relays_of_a_process_lose_and_reorder_nothing_when_it_or_postgres_dies(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, tmp_path: Path, delivery: str
) -> None:
    pair = two_relays(deploy, of_one_server(private_postgres()), kafka, tmp_path, delivery=delivery)
    survived(pair, [killed, postgres_crashed], delivery)


@pytest.mark.chaos
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_two_relays_of_a_process_lose_and_reorder_nothing_whatever_dies(
    deploy: Deploy, private_postgres: PostgresMaker, broker: KafkaServer, tmp_path: Path, delivery: str
) -> None:
    troubles = random.Random(61).choices([killed, killed, stopped, postgres_crashed, broker_killed], k=25)
    pair = two_relays(deploy, of_one_server(private_postgres()), broker, tmp_path, delivery=delivery)
    survived(pair, [*troubles, broker_killed], delivery)


def test_poison_in_one_relay_is_a_dead_letter_there_and_a_graceful_stop_of_both_repeats_nothing(
    deploy: Deploy, database: Database, second: Database, kafka: Kafka, tmp_path: Path
) -> None:
    pair = two_relays(deploy, (database, second), kafka, tmp_path, refusals={"policy": "dead_letter"})
    with Load(pair, seed=62) as load:
        relay = pair.start()
        load.goes_on()
        (poison,) = pair.orders.write(TOO_LARGE)
        told = relay.wait_for("set aside")
        load.goes_on()
        relay = stopped(pair, relay, load)
        load.goes_on()
    pair.catch_up()
    assert (told["id"], told["relay"]) == (poison, "orders")
    pair.orders.database.execute("DELETE FROM outbox WHERE id = %s", [poison])  # the topic has all others
    assert load.assert_delivered() == 0
    relay.stop()
