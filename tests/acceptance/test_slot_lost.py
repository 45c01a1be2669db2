"""A slot that is gone or invalidated is a fatal error that says what to do, and is never made again silently."""

import subprocess

import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY, RelayProcess
from tests.conftest import PostgresMaker
from tests.servers.topics import Kafka

HOW_TO_GO_ON = "`walrelay recover`"


def assert_fatal(relay: RelayProcess, error: str) -> None:
    assert relay.wait(20) == 1
    (fatal,) = relay.events("fatal")
    assert error in fatal["error"]
    assert HOW_TO_GO_ON in fatal["hint"]


def assert_init_refuses(deployment: Deployment) -> None:
    done = subprocess.run([WALRELAY, "init", "--config", deployment.config], capture_output=True, text=True)
    assert done.returncode == 1
    assert HOW_TO_GO_ON in done.stderr


def drop_slot(deployment: Deployment) -> None:
    deployment.database.execute("SELECT pg_drop_replication_slot(%s)", [deployment.slot_name])


@pytest.mark.parametrize("command", ["run", "init"])
def test_a_dropped_slot_is_fatal_and_not_made_again(deployment: Deployment, command: str) -> None:
    drop_slot(deployment)
    deployment.write("{}")
    if command == "run":
        assert_fatal(deployment.launch(), "does not exist")
    else:
        assert_init_refuses(deployment)
    assert deployment.slot_name not in deployment.database.server.slots()
    assert deployment.delivered() == []


def test_a_slot_dropped_under_a_running_relay_is_fatal(deployment: Deployment) -> None:
    relay = deployment.start()
    with deployment.database.connect() as connection:
        # In one statement, or the relay might have it again in between.
        connection.execute(
            "DO $$ DECLARE target record; BEGIN"
            "  SELECT slot_name, active_pid INTO target FROM pg_replication_slots WHERE database = current_database();"
            "  PERFORM pg_terminate_backend(target.active_pid, 5000);"
            "  PERFORM pg_drop_replication_slot(target.slot_name);"
            "END $$"
        )
    assert_fatal(relay, "does not exist")


def test_an_invalidated_slot_is_fatal_and_not_made_again(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str
) -> None:
    server = private_postgres(max_slot_wal_keep_size="16MB", min_wal_size="32MB", max_wal_size="32MB")
    deployment = deploy(server.create_database(), kafka, topic)
    deployment.write("{}")
    for _ in range(4):
        server.execute("SELECT pg_logical_emit_message(false, 'filler', 'x'), pg_switch_wal()")
    server.execute("CHECKPOINT")
    assert server.execute("SELECT wal_status FROM pg_replication_slots") == [("lost",)]
    assert_fatal(deployment.launch(), "cannot be read any more")
    assert_init_refuses(deployment)
    assert server.execute("SELECT wal_status FROM pg_replication_slots") == [("lost",)]
    assert deployment.delivered() == []
