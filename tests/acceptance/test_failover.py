"""PostgreSQL fails over under load: the relay goes on by itself on the standby that was promoted, and loses nothing."""

import json
import time
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
        assert (
            "standby slot standby_1: its standby is" in json.loads(deployment.command("status", "--json"))["waits_for"]
        )
        crashed = time.monotonic()
        pair.fail_over()
        relay.wait_for("streaming", more_than=1)
        measured("seconds from the crash until it streams again, the promotion included", time.monotonic() - crashed)
        writers.wait_for_more(300)
    deployment.catch_up()
    kept = {event for (event,) in deployment.database.execute("SELECT id::text FROM outbox")}
    assert writers.acknowledged - kept, "the standby had everything, so nothing was tested"
    assert not writers.undone & kept
    measured("after a failover", assert_delivered(deployment))
    measured("commits that the failover lost, none of them published", len(writers.acknowledged - kept))


def test_a_dead_standby_that_is_waited_for_is_named_and_its_return_is_enough(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str
) -> None:
    pair = cluster(WITH_FAILOVER_SLOTS)
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    relay = deployment.start()
    before = deployment.write("{}")
    deployment.catch_up()
    pair.standby.stop()
    held_up = deployment.write("{}")
    relay.wait_for("noticed", containing="no event comes until a standby has it")
    trouble = "standby slot standby_1: no standby is connected to it"
    wait_until(lambda: f"waits for       {trouble}" in deployment.command("status"), 10, "status to name the standby")
    assert json.loads(deployment.command("status", "--json"))["waits_for"] == trouble
    relay.lives_for(0.5)
    assert deployment.delivered_ids() == before
    pair.standby.start()
    deployment.catch_up()
    assert deployment.delivered_ids() == before + held_up
    assert len(relay.events("streaming")) == 1
    assert json.loads(deployment.command("status", "--json"))["waits_for"] == ""


def test_a_server_that_shuts_down_while_a_standby_is_away_ends_no_relay(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str
) -> None:
    pair = cluster(WITH_FAILOVER_SLOTS)
    deployment = deployed(deploy, pair, kafka, topic, failover=True)
    relay = deployment.start()
    pair.standby.stop()
    held_up = deployment.write("{}")
    relay.wait_for("noticed", containing="no event comes until a standby has it")
    pair.primary.stop("fast", timeout=10)
    relay.wait_for("retrying", containing="which waited for a standby")
    pair.primary.start()
    pair.standby.start()
    deployment.catch_up()
    assert deployment.delivered_ids() == held_up


@pytest.mark.parametrize("major", [None, WITH_FAILOVER_SLOTS], ids=["any version", "PostgreSQL 18"])
def test_a_slot_that_no_standby_has_is_missed_after_a_failover_and_not_made_again(
    deploy: Deploy, cluster: Cluster, kafka: Kafka, topic: str, major: int | None
) -> None:
    pair = cluster(major, failover=False)
    deployment = deployed(deploy, pair, kafka, topic)
    relay = deployment.start()
    deployment.write("{}")
    deployment.catch_up()
    pair.standby.catch_up()
    pair.fail_over()
    unpublished = deployment.write("{}")
    assert_fatal(relay, "this relay read it on timeline 1: a standby was promoted that did not have it")
    ((system,),) = pair.execute("SELECT system_identifier::text FROM pg_control_system()")
    assert_fatal(deployment.launch(), f"does not exist on this server (system {system}, timeline 2); it was made at")
    assert_init_refuses(deployment)
    assert pair.slots() == set()
    assert len(deployment.delivered()) == 1
    assert unpublished[0] not in deployment.delivered_ids()
