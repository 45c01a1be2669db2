"""A server whose disk is set back to a snapshot, on its own timeline: it soon has other events at the old positions."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_exactly_once import EXACTLY_ONCE
from tests.brokers.redis import RedisStream
from tests.conftest import PostgresMaker
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.lsn import LSN


@pytest.fixture
def place(stoppable_redis: RedisServer) -> RedisStream:
    stoppable_redis.start()
    return RedisStream(stoppable_redis)


class Snapshot:
    """The data directory as it is now, put back later."""

    def __init__(self, server: PostgresServer) -> None:
        self._server, self._copy = server, server.data.with_name("snapshot")
        server.stop()
        shutil.copytree(server.data, self._copy, symlinks=True)
        self._owned()
        server.start()

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Inside, the server is down and has the old data."""
        self._server.stop("immediate")
        shutil.rmtree(self._server.data)
        self._copy.rename(self._server.data)
        yield
        self._server.start()

    def _owned(self) -> None:
        owner = self._server.data.stat()
        for path in (self._copy, *self._copy.rglob("*")):
            shutil.chown(path, owner.st_uid, owner.st_gid)


def events(deployment: Deployment, count: int) -> None:
    """So many transactions."""
    with deployment.database.connect() as connection:
        for _ in range(count):
            connection.execute("SELECT walrelay.emit('thing', 'a', 'Happened', '{}')")


def write_beyond(deployment: Deployment, position: LSN) -> None:
    """Events, until the WAL has passed that position."""
    while deployment.position() <= position:
        events(deployment, 50)


def rows(deployment: Deployment) -> set[str]:
    return {str(id_) for (id_,) in deployment.database.execute("SELECT id FROM outbox")}


def is_complete(deployment: Deployment) -> Callable[[], bool]:
    return lambda: rows(deployment) <= set(deployment.delivered_ids())


def refusal(relay: RelayProcess) -> str:
    assert relay.wait() == 1
    (fatal,) = relay.events("fatal")
    return str(fatal)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(EXACTLY_ONCE, id="exactly once"),
        pytest.param({"position": {"keep": "topic"}}, id="position in the broker", marks=pytest.mark.slow),
    ],
)
def test_a_relay_refuses_a_server_that_was_set_back_however_far_it_went_on(
    deploy: Deploy, private_postgres: PostgresMaker, place: RedisStream, settings: dict[str, Any]
) -> None:
    server = private_postgres()
    deployment = deploy(server.create_database(), place, place.topic, **settings)
    events(deployment, 20)
    deployment.start()
    deployment.catch_up()
    deployment.relays[-1].stop()
    snapshot = Snapshot(server)
    deployment.start()
    events(deployment, 40)
    deployment.catch_up()
    deployment.relays[-1].stop()
    end = deployment.position()
    with snapshot.put_back():
        pass
    assert "set back, for instance to a snapshot" in refusal(deployment.launch())
    write_beyond(deployment, end)
    for _ in range(2):
        assert "has other transactions now behind" in refusal(deployment.launch())
    relay = deployment.launch("--from-slot")
    wait_until(is_complete(deployment), 60, "all rows of the restored database")
    deployment.catch_up()
    relay.stop()
    before = len(deployment.delivered_ids())
    deployment.start()
    events(deployment, 1)
    deployment.catch_up()
    assert len(deployment.delivered_ids()) == before + 1
    assert not deployment.relays[-1].events("noticed")


@pytest.mark.parametrize("keep", ["slot", pytest.param("table", marks=pytest.mark.slow)])
def test_a_process_that_stays_up_while_its_server_is_set_back_loses_nothing(
    deploy: Deploy, private_postgres: PostgresMaker, place: RedisStream, keep: str
) -> None:
    server = private_postgres()
    deployment = deploy(server.create_database(), place, place.topic, position={"keep": keep})
    events(deployment, 20)
    deployment.start()
    deployment.catch_up()
    snapshot = Snapshot(server)
    events(deployment, 40)
    deployment.catch_up()
    end = deployment.position()
    with snapshot.put_back(), (server.data / "postgresql.auto.conf").open("a") as file:
        file.write("max_wal_senders = 0\n")  # the relay waits until the WAL is beyond what it read
    write_beyond(deployment, end)
    server.configure(max_wal_senders=20, restart=True)
    wait_until(is_complete(deployment), 60, "all rows of the restored database")


def test_a_relay_goes_on_where_nothing_was_published_since_the_snapshot(
    deploy: Deploy, private_postgres: PostgresMaker, place: RedisStream
) -> None:
    """It has confirmed other WAL since, which the server now writes events to."""
    server = private_postgres()
    deployment = deploy(server.create_database(), place, place.topic, **EXACTLY_ONCE)
    deployment.start()
    events(deployment, 20)
    deployment.catch_up()
    deployment.relays[-1].stop()
    snapshot = Snapshot(server)
    deployment.start()
    deployment.database.execute("CREATE TABLE other AS SELECT FROM generate_series(1, 5000)")
    deployment.catch_up()
    deployment.relays[-1].stop()
    end = deployment.position()
    with snapshot.put_back():
        pass
    write_beyond(deployment, end)
    relay = deployment.start()
    deployment.catch_up()
    assert is_complete(deployment)()
    assert len(deployment.delivered_ids()) == len(set(deployment.delivered_ids()))
    assert "so the stream begins there" in str(relay.events("noticed"))


@pytest.mark.slow
def test_kafka_transactions_tell_a_server_that_was_set_back(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str
) -> None:
    server = private_postgres()
    deployment = deploy(server.create_database(), kafka, topic, **EXACTLY_ONCE)
    events(deployment, 20)
    deployment.start()
    deployment.catch_up()
    deployment.relays[-1].stop()
    snapshot = Snapshot(server)
    deployment.start()
    events(deployment, 40)
    deployment.catch_up()
    deployment.relays[-1].stop()
    end = deployment.position()
    with snapshot.put_back():
        pass
    write_beyond(deployment, end)
    assert "has other transactions now behind" in refusal(deployment.launch())
    deployment.launch("--from-slot")
    wait_until(is_complete(deployment), 60, "all rows of the restored database")
