"""A slot that is dropped and made again by hand while its relay is stopped, and a position of an earlier life."""

import subprocess
from typing import Any

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_exactly_once import EXACTLY_ONCE
from tests.brokers.redis import RedisStream
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.waiting import wait_until


@pytest.fixture
def place(stoppable_redis: RedisServer) -> RedisStream:
    stoppable_redis.start()
    return RedisStream(stoppable_redis)


def lived(deployment: Deployment) -> None:
    """One event, published by a relay that stopped in good order."""
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    relay.stop()
    wait_until(lambda: reported(deployment) == "stopped", 30, "the relay's last report")


def reported(deployment: Deployment) -> str:
    ((state,),) = deployment.database.execute("SELECT state FROM walrelay.relays")
    return str(state)


@pytest.fixture
def lost(deploy: Deploy, database: Database, place: RedisStream) -> Deployment:
    """Of three events the second is in no slot."""
    deployment = deploy(database, place, place.topic)
    lived(deployment)
    deployment.write("2")
    deployment.database.drop_slots()
    deployment.database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [deployment.slot_name])
    deployment.write("3")
    return deployment


GAP = "but its relay had confirmed only"


def test_every_command_names_the_gap_before_a_slot_that_was_made_again(lost: Deployment) -> None:
    assert GAP in lost.command("doctor", exit_code=1)
    assert "unknown" in lost.command("find", "--aggregate", "thing", "a", exit_code=None)
    assert GAP in lost.said("cleanup", "--older-than", "1s", "--dry-run", exit_code=1)
    relay = lost.launch()
    relay.wait_for("noticed", containing=GAP)
    lost.catch_up()
    kept = "published from when on is not known"
    for _ in range(2):  # also once that relay has stopped behind the gap
        assert "walrelay init" in lost.said("cleanup", "--older-than", "1s", "--dry-run", exit_code=1), kept
        relay.stop()
    lost.command("recover", "--replace", "--yes")
    lost.start()
    lost.catch_up()
    assert len(set(lost.delivered_ids())) == 3


def test_a_gap_is_named_also_where_a_relay_failed_in_between(lost: Deployment) -> None:
    """It found no slot, and said so; then the slot was made by hand."""
    lost.database.drop_slots()
    assert lost.launch().wait(20) == 1
    lost.database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [lost.slot_name])
    relay = lost.launch()
    relay.wait_for("noticed", containing=GAP)
    relay.stop()


def test_a_gap_that_an_operator_accepts_is_kept_from_the_clean_up(lost: Deployment) -> None:
    relay = lost.launch("--from-slot")
    relay.wait_for("noticed", containing="events before it may be skipped")
    lost.catch_up()
    assert len(lost.delivered_ids()) == 2
    relay.stop()
    assert "walrelay init" in lost.said("cleanup", "--older-than", "1s", "--dry-run", exit_code=1)
    lost.start()


@pytest.mark.parametrize("first", [EXACTLY_ONCE, {"position": {"keep": "topic"}}], ids=["exactly once", "topic"])
def test_a_position_of_an_earlier_life_is_outdated_where_the_relay_got_further(
    deploy: Deploy, database: Database, place: RedisStream, first: dict[str, Any]
) -> None:
    deployment = deploy(database, place, place.topic, **first)
    lived(deployment)
    deployment.write_settings(**dict.fromkeys(first))
    lived(deployment)
    deployment.write_settings(**first)
    relay = deployment.start()
    assert "which is outdated" in str(relay.events("noticed"))
    deployment.write("1")
    deployment.catch_up()
    assert len(deployment.delivered_ids()) == len(set(deployment.delivered_ids())) == 3


def test_a_stop_leaves_nothing_in_the_slot(deploy: Deploy, private_postgres: PostgresMaker, place: RedisStream) -> None:
    """pg_upgrade refuses a slot that has not consumed all."""
    server = private_postgres(major=18)
    deployment = deploy(server.create_database(), place, place.topic)
    for _ in range(3):
        lived(deployment)
        left = deployment.database.execute(
            "SELECT * FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
            " 'publication_names', 'walrelay')",
            [deployment.slot_name],
        )
        assert left == []
        assert "commit" not in waiting(server, deployment)


def waiting(server: PostgresServer, deployment: Deployment) -> str:
    """The WAL behind the slot, as pg_waldump shows it."""
    end = deployment.position()
    confirmed = deployment.slot.confirmed
    if confirmed >= end:
        return ""
    done = subprocess.run(
        [server.bin("pg_waldump"), "-p", server.data / "pg_wal", "-s", str(confirmed), "-e", str(end)],
        capture_output=True,
        text=True,
    )
    return done.stdout.lower()


@pytest.mark.slow
def test_a_relay_goes_on_after_pg_upgrade(deploy: Deploy, private_postgres: PostgresMaker, place: RedisStream) -> None:
    old, new = private_postgres(major=18), private_postgres(major=18)
    deployment = deploy(old.create_database(), place, place.topic)
    lived(deployment)
    old.stop()
    new.stop()
    new.upgrade_from(old)
    new.start()
    deployment.database = Database(new, deployment.database.name)
    deployment.write_settings(source={"dsn": deployment.database.dsn, "slot": deployment.slot_name})
    deployment.command("init")
    deployment.start()
    deployment.write("2")
    deployment.catch_up()
    assert len(deployment.delivered_ids()) == len(set(deployment.delivered_ids())) == 2
