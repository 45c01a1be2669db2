"""PostgreSQL fails over under load: the relay goes on by itself on the standby that was promoted, and loses nothing."""

from typing import Any, Protocol

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_slot_lost import assert_fatal, assert_init_refuses
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker, ProxyMaker, StandbyMaker
from tests.servers.proxy import Proxy
from tests.servers.standby import Pair
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

WITH_FAILOVER_SLOTS = 18


class Cluster(Protocol):
    """A primary with a standby: with failover slots and `synchronized_standby_slots`, or without either."""

    def __call__(self, major: int | None = None, *, failover: bool = True) -> Pair: ...


@pytest.fixture
def proxies(proxy: ProxyMaker) -> list[Proxy]:
    """The way from the standby to the primary, when there is one."""
    return []


@pytest.fixture
def cluster(
    private_postgres: PostgresMaker, standby_of: StandbyMaker, proxy: ProxyMaker, proxies: list[Proxy]
) -> Cluster:
    def make(major: int | None = None, *, failover: bool = True) -> Pair:
        primary = private_postgres(major=major)
        proxies.append(proxy(primary.port))
        standby = standby_of(primary, port=proxies[-1].port)
        if failover:  # on the standby, which was copied before, the setting would wait for a slot that it has not
            primary.configure(synchronized_standby_slots=standby.slot)
        return Pair(primary, standby)

    return make


def deployed(deploy: Deploy, pair: Pair, kafka: Kafka, topic: str, **source: Any) -> Deployment:
    """On the pair, with the DSN that leads to whichever server can be written to."""
    database = pair.create_database()
    return deploy(database, kafka, topic, source={"dsn": database.dsn, **source})


def test_a_standby_takes_over_and_nothing_was_published_that_it_does_not_have(
    deploy: Deploy, cluster: Cluster, proxies: list[Proxy], kafka: Kafka, topic: str, measured: Measured
) -> None:
    pair = cluster(WITH_FAILOVER_SLOTS)
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    relay = deployment.start()
    with Writers(deployment.database, seed=40) as writers:
        writers.wait_for_more(300)
        pair.standby.wait_for_slot(deployment.slot_name)
        writers.wait_for_more(300)
        proxies[0].stall()  # the standby falls behind: what is committed from now on will be lost with the primary
        writers.wait_for_more(300)
        pair.fail_over()
        relay.wait_for("streaming", more_than=1)
        writers.wait_for_more(300)
    deployment.catch_up()
    kept = {event for (event,) in deployment.database.execute("SELECT id::text FROM outbox")}
    assert writers.acknowledged - kept, "the standby had everything, so nothing was tested"
    assert not writers.undone & kept
    measured("after a failover", assert_delivered(deployment))
    measured("commits that the failover lost, none of them published", len(writers.acknowledged - kept))
