"""The way to PostgreSQL breaks: cut, stalled and half-open connections lose and reorder nothing."""

import re
from datetime import datetime

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.checking import Delivery, assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.writing import Writers
from tests.conftest import KafkaMaker, PostgresMaker, ProxyMaker
from tests.servers.database import Database
from tests.servers.proxy import Proxy
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

CUTS = 10

ALONE = 1.5
"""Seconds that a sink surely goes on alone for after the connection to PostgreSQL broke (relay/run.py: for two)."""

SILENCE = "PostgreSQL has been silent for 2 s|no answer within 2 s"
"""What a relay says of a dead connection: of the one that streams, or of the one that asks the catalog."""


@pytest.fixture
def impatient(private_postgres: PostgresMaker) -> Database:
    """A server that soon lets go of a walsender whose client says nothing."""
    return private_postgres(wal_sender_timeout="5s").create_database()


@pytest.fixture
def way(impatient: Database, proxy: ProxyMaker) -> Proxy:
    """The relay's only way to that server; the writers have one of their own."""
    return proxy(impatient.server.port)


@pytest.fixture
def deployment(deploy: Deploy, impatient: Database, way: Proxy, kafka: Kafka, topic: str) -> Deployment:
    dsn = make_conninfo(impatient.through(way), connect_timeout=2)
    source = {"dsn": dsn, "receive_timeout": 2, "publication_check_interval": 0.1}
    return deploy(impatient, kafka, topic, source=source)


def repeats_nothing(relay: RelayProcess, delivery: Delivery) -> None:
    """Unless the machine was so busy that the relay came back later than the sink waits for it."""
    broken, streaming = (
        [datetime.fromisoformat(entry["timestamp"]) for entry in relay.events(event)]
        for event in ("retrying", "streaming")
    )
    longest = max(min(back for back in streaming if back > begun) - begun for begun in broken)
    assert delivery.duplicates == 0 or longest.total_seconds() > ALONE, f"published again after {longest}"


def test_a_connection_cut_again_and_again_loses_and_reorders_nothing(deployment: Deployment, way: Proxy) -> None:
    relay = deployment.start()
    with Writers(deployment.database, seed=30) as writers:
        for cuts in range(1, CUTS + 1):
            writers.wait_for_more(100)
            way.cut()
            relay.wait_for("streaming", more_than=cuts)
    deployment.catch_up()
    repeats_nothing(relay, assert_delivered(deployment, writers))


def test_what_still_waits_for_a_slow_broker_is_not_published_again_after_a_reconnection(
    deploy: Deploy, impatient: Database, way: Proxy, private_kafka: KafkaMaker
) -> None:
    """guarantees A17: the server sends again what was not confirmed, but the producer has it already."""
    kafka = private_kafka(proxied=True)
    source = {"dsn": make_conninfo(impatient.through(way), connect_timeout=2)}
    deployment = deploy(impatient, kafka, kafka.create_topic(partitions=3), source=source)
    relay = deployment.start()
    with Writers(impatient, seed=34) as writers:
        for cuts in range(1, CUTS + 1):
            writers.wait_for_more(50)
            kafka.proxy.stall()
            writers.wait_for_more(50)
            way.cut()
            relay.wait_for("streaming", more_than=cuts)
            kafka.proxy.resume()
    deployment.catch_up()
    repeats_nothing(relay, assert_delivered(deployment, writers))


def test_a_stalled_connection_goes_on_where_it_stopped(deployment: Deployment, way: Proxy) -> None:
    relay = deployment.start()
    with Writers(deployment.database, seed=31) as writers:
        writers.wait_for_more(100)
        way.stall()
        writers.wait_for_more(50)  # for much less than `receive_timeout`, on a busy machine too
        way.resume()
        writers.wait_for_more(100)
    deployment.catch_up()
    assert assert_delivered(deployment, writers).duplicates == 0
    assert len(relay.events("streaming")) == 1


def test_a_half_open_connection_is_noticed_and_its_slot_waited_for(deployment: Deployment, way: Proxy) -> None:
    relay = deployment.start()
    dead = deployment.slot.pid
    with Writers(deployment.database, seed=32) as writers:
        writers.wait_for_more(100)
        way.half_open()
        way.resume()  # for new connections; the walsender of the old one lives until wal_sender_timeout
        assert re.search(SILENCE, relay.wait_for("retrying")["cause"])
        relay.wait_for("standing by")  # behind its own dead connection, which still has the lead
        relay.wait_for("streaming", more_than=1)
        assert deployment.slot.pid != dead
    deployment.catch_up()
    assert_delivered(deployment, writers)


def test_a_network_that_swallows_everything_is_tried_until_it_works_again(deployment: Deployment, way: Proxy) -> None:
    relay = deployment.start()
    with Writers(deployment.database, seed=33) as writers:
        writers.wait_for_more(100)
        way.half_open()
        assert re.search(SILENCE, relay.wait_for("retrying")["cause"])
        accepted = way.accepted
        wait_until(lambda: way.accepted > accepted + 1, 30, "a second try after one that was swallowed")
        way.resume()
        relay.wait_for("streaming", more_than=1, timeout=30)
    deployment.catch_up()
    assert_delivered(deployment, writers)


def test_a_half_open_connection_is_noticed_while_only_other_tables_are_written(
    deployment: Deployment, way: Proxy
) -> None:
    """Then the relay asks the catalog, on a second connection, whether the outbox is still published."""
    relay = deployment.start()
    with deployment.database.connect() as other:
        other.execute("CREATE TABLE other (n int)")
        half_open = False

        def noticed() -> bool:
            nonlocal half_open
            other.execute("INSERT INTO other SELECT generate_series(1, 1000)")
            if not half_open and deployment.slot.confirmed > started:
                way.half_open()
                way.resume()
                half_open = True
            return len(relay.events("streaming")) > 1

        started = deployment.slot.confirmed
        wait_until(noticed, 30, "the relay to reconnect")
    deployment.write("{}")
    deployment.catch_up()
    assert_delivered(deployment)
