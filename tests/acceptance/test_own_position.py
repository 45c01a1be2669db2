"""A position of the relay's own: what a crash of PostgreSQL forgets is not published again."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.acceptance.writing import Writers
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.topics import Kafka
from walrelay.model import RelayPosition

Sections = dict[str, Any]


@pytest.fixture
def server(private_postgres: PostgresMaker) -> PostgresServer:
    return private_postgres()


@pytest.fixture(params=["file", "table", "topic", "exactly_once"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Sections:
    """Settings under which the relay has a position of its own."""
    if request.param == "exactly_once":
        return {"delivery": "exactly_once"}
    return {"position": {"keep": request.param, "path": str(tmp_path / "position")}}


def crash_everything(deployment: Deployment, server: PostgresServer) -> None:
    """The relay dies and PostgreSQL crashes, when all is confirmed."""
    deployment.catch_up()
    deployment.relays[-1].kill()
    server.restart("immediate")


@pytest.mark.parametrize("crashes", [2, pytest.param(6, marks=pytest.mark.chaos)])
def test_a_crash_of_postgres_and_of_the_relay_repeats_nothing_that_was_confirmed(
    deploy: Deploy, server: PostgresServer, kafka: Kafka, topic: str, kept: Sections, crashes: int
) -> None:
    """guarantees A10."""
    deployment = deploy(server.create_database(), kafka, topic, **kept)
    for seed in range(crashes):
        deployment.start()
        with Writers(deployment.database, seed=60 + seed) as writers:
            writers.wait_for_more(200)
        crash_everything(deployment, server)
    deployment.start()
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 0


def test_without_a_position_of_its_own_the_same_crash_repeats_events(
    deploy: Deploy, server: PostgresServer, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(server.create_database(), kafka, topic)
    deployment.start()
    deployment.write("1", "2", "3")
    crash_everything(deployment, server)
    deployment.start()
    deployment.catch_up()
    assert assert_delivered(deployment).duplicates == 3


@pytest.mark.parametrize("moved", ["advanced", "made again"])
def test_a_slot_that_somebody_else_moved_while_no_relay_ran_is_refused(
    deploy: Deploy, server: PostgresServer, kafka: Kafka, topic: str, kept: Sections, moved: str
) -> None:
    """guarantees A11 and A12: events in between may be missing, and nobody would notice."""
    deployment = deploy(server.create_database(), kafka, topic, **kept)
    deployment.start()
    deployment.write("1")
    deployment.catch_up()
    deployment.relays[-1].stop()
    deployment.write("2")
    if moved == "advanced":
        deployment.database.execute(
            "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [deployment.slot_name]
        )
    else:
        deployment.database.execute("SELECT pg_drop_replication_slot(%s)", [deployment.slot_name])
        deployment.database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [deployment.slot_name])
    relay = deployment.launch()
    assert relay.wait() == 1
    (fatal,) = relay.events("fatal")
    assert "something else moved it, or it was created again" in fatal["error"]
    assert "walrelay recover" in fatal["hint"]
    deployment.launch("--from-slot").wait_for("streaming")
    deployment.write("3")
    deployment.catch_up()
    assert [message.value for message in deployment.delivered()] == [b"1", b"3"]
    if moved == "advanced":  # the commands do not know by which of the two
        _stays_until_init_takes_note(deployment, "2")


def test_a_role_that_may_not_note_what_is_passed_over_passes_over_nothing(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    role = f"r_{database.name}"
    deployment = deploy(database, kafka, topic, position={"keep": "file", "path": str(tmp_path / "position")})
    (tmp_path / "position").write_text("cannot be read")
    database.execute(
        f"CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA walrelay TO {role};"
        f" GRANT SELECT ON walrelay.slots, walrelay.dead_letters TO {role}"
    )
    try:
        deployment.write_settings(source={"dsn": psycopg.conninfo.make_conninfo(database.dsn, user=role)})
        relay = deployment.launch("--from-slot")
        assert relay.wait() == 1
        (fatal,) = relay.events("fatal")
        database.execute(fatal["hint"])
        relay = deployment.launch("--from-slot")
        relay.wait_for("streaming")
        assert database.execute("SELECT published_from FROM walrelay.slots") == [(None,)]
        relay.stop()
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def _stays_until_init_takes_note(deployment: Deployment, passed_over: str) -> None:
    """What the relay was told to skip is confirmed, and nobody has it."""
    command = [str(WALRELAY), "cleanup", "--older-than", "0.01s", "--config", str(deployment.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "does not say from when on" in done.stderr
    assert "walrelay init" in done.stderr
    deployment.command("init")
    deployment.write("4")
    deployment.catch_up()
    assert "1 row deleted" in deployment.command("cleanup", "--older-than", "0.01s")
    assert (passed_over,) in deployment.database.execute("SELECT payload::text FROM outbox")


def test_a_position_of_another_server_is_refused(
    deploy: Deploy, private_postgres: PostgresMaker, server: PostgresServer, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    """A DSN that leads elsewhere, or a cluster that initdb made again."""
    position = {"keep": "file", "path": str(tmp_path / "position")}
    deployment = deploy(server.create_database(), kafka, topic, position=position)
    deployment.start()
    deployment.write("1")
    deployment.catch_up()
    deployment.relays[-1].stop()
    other = deploy(
        private_postgres().create_database(), kafka, topic, position=position, source={"slot": deployment.slot_name}
    )
    relay = other.launch()
    assert relay.wait() == 1
    (fatal,) = relay.events("fatal")
    assert "is of the system" in fatal["error"]
    assert "Correct source.dsn" in fatal["hint"]


def test_a_lost_slot_is_recovered_from_the_position_that_the_relay_keeps(
    deploy: Deploy, server: PostgresServer, kafka: Kafka, topic: str, kept: Sections
) -> None:
    """The slot is gone under load; nothing is lost, little is repeated, and the relay goes on without being told."""
    deployment = deploy(server.create_database(), kafka, topic, **kept)
    relay = deployment.start()
    with Writers(deployment.database, seed=70) as writers:
        writers.wait_for_more(300)
        relay.kill()
        deployment.database.execute("SELECT pg_drop_replication_slot(%s)", [deployment.slot_name])
        writers.wait_for_more(300)
        assert deployment.launch().wait() == 1
        said = deployment.command("recover", "--yes", "--recall", "0")
        assert "own position" in said
        deployment.start()
        writers.wait_for_more(300)
    deployment.catch_up()
    assert_delivered(deployment, writers)


def test_a_position_that_cannot_be_read_is_passed_over_on_request(
    deploy: Deploy, server: PostgresServer, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    position = tmp_path / "position"
    deployment = deploy(server.create_database(), kafka, topic, position={"keep": "file", "path": str(position)})
    position.write_text("what is this?")
    relay = deployment.launch()
    assert relay.wait() == 1
    assert "cannot be read" in relay.events("fatal")[0]["error"]
    deployment.launch("--from-slot").wait_for("streaming")
    deployment.write("1")
    deployment.catch_up()
    assert RelayPosition.of_json(position.read_bytes()).lsn == deployment.slot.confirmed


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("keep", ["table", "topic"])
def test_a_frozen_relay_that_wakes_up_does_not_take_the_position_back(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str, keep: str, times: int
) -> None:
    """What it was about to keep is older than what its successor kept: the slot would seem to have been moved."""
    server = private_postgres(wal_sender_timeout="2s")
    deployment = deploy(server.create_database(), kafka, topic, position={"keep": keep})
    for seed in range(times):
        leader, standby = deployment.start(), deployment.launch()
        standby.wait_for("standing by")
        with Writers(deployment.database, seed=70 + seed) as writers:
            writers.wait_for_more(300)
            leader.send(signal.SIGSTOP)
            standby.wait_for("streaming")
            writers.wait_for_more(100)
        deployment.catch_up()
        leader.send(signal.SIGCONT)
        leader.wait_for("standing by")
        standby.kill()
        leader.wait_for("streaming", more_than=1)
        leader.stop()
