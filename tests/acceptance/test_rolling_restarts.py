"""Three instances behind one address are restarted one after the other while PostgreSQL fails over, again and again."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker, ProxyMaker
from tests.servers.database import Database, Postgres
from tests.servers.ports import LOOPBACK
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy
from tests.servers.standby import Standby
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

WITH_FAILOVER_SLOTS = 18
INSTANCES = 3


class Cluster:
    """A primary that has a standby with the slot; both are behind an address that leads to whichever is meant."""

    def __init__(self, primary: PostgresServer, way: Proxy) -> None:
        self.primary, self.way = primary, way
        dsn = make_conninfo(host=LOOPBACK, port=way.port, user="postgres", dbname="postgres", connect_timeout=3)
        name = primary.create_database().name
        self.dsn = make_conninfo(dsn, dbname=name)  # of the relay, which has to see by itself where it leads
        self.database = Database(Postgres(make_conninfo(dsn, target_session_attrs="read-write")), name)
        self._servers = ExitStack()
        self.standby: Standby | None = None

    def gets_a_standby(self, slot: str) -> None:
        """And publishes nothing more that it does not have."""
        self.standby = self._servers.enter_context(Standby(self.primary))
        self.primary.configure(synchronized_standby_slots=self.standby.slot)
        self.standby.wait_for_slot(slot)

    def loses_its_primary(self) -> None:
        """The address leads to the standby, which is none yet."""
        assert self.standby is not None
        self.way.lead_to(self.standby.port)
        self.primary.stop("immediate")

    def has_a_new_primary(self) -> None:
        assert self.standby is not None
        self.standby.promote()
        self.primary.remove()
        self.primary = self.standby

    def end(self) -> None:
        self._servers.close()


@pytest.fixture
def cluster(private_postgres: PostgresMaker, proxy: ProxyMaker) -> Iterator[Cluster]:
    primary = private_postgres(major=WITH_FAILOVER_SLOTS)
    made = Cluster(primary, proxy(primary.port))
    yield made
    made.end()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("keep", ["slot", pytest.param("table", marks=pytest.mark.chaos)])
def test_rolling_restarts_while_postgres_fails_over_stop_no_instance_and_lose_nothing(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str, measured: Measured, rounds: int, keep: str
) -> None:
    source = {"dsn": cluster.dsn, "failover": True, "receive_timeout": 5}
    deployment = deploy(cluster.database, kafka, topic, source=source, position={"keep": keep})
    instances = [deployment.launch() for _ in range(INSTANCES)]
    with Writers(cluster.database, seed=rounds, pause=0.02) as writers:
        for _ in range(rounds):
            cluster.gets_a_standby(deployment.slot_name)
            writers.wait_for_more(50, timeout=60)
            restart(deployment, instances, 0)
            cluster.loses_its_primary()
            restart(deployment, instances, 1)
            cluster.has_a_new_primary()
            restart(deployment, instances, 2)
            writers.wait_for_more(50, timeout=60)
    deployment.catch_up(60)
    for relay in deployment.relays:
        assert relay.events("fatal") == []
    for relay in instances:
        wait_until(partial(bool, relay.log), 30, "the instance to be past its start")
        relay.stop()
    measured(f"after {rounds} rounds of restarts and failovers", assert_delivered(deployment))


def restart(deployment: Deployment, instances: list[RelayProcess], which: int) -> None:
    """As a rolling deployment does it, whatever PostgreSQL is up to."""
    instances[which].send(signal.SIGTERM)
    assert instances[which].wait(60) in (0, -signal.SIGTERM), instances[which].log[-5:]  # while Python still starts
    instances[which] = deployment.launch()
