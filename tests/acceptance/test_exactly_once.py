"""Exactly once to Kafka, whatever dies: a consumer that reads committed messages sees each event once, in order."""

import json
import random
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.acceptance.writing import Writers
from tests.brokers import Broker
from tests.brokers.nats import NatsOwnStream
from tests.brokers.postgres import PostgresTable
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.lsn import LSN, ZERO
from walrelay.model import RelayPosition

EXACTLY_ONCE: dict[str, Any] = {"delivery": "exactly_once"}
ROWS = 150_000
KAFKA = pytest.param("kafka", marks=pytest.mark.java)
IN_CHAOS = [pytest.param(kind, marks=pytest.mark.chaos) for kind in ("nats", "postgres")]


@pytest.fixture(params=[KAFKA, "nats", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Kafka | Broker, str]]:
    """Where a relay can publish exactly once, and a topic there."""
    match request.param:
        case "kafka":
            yield request.getfixturevalue("kafka"), request.getfixturevalue("topic")
        case "nats":
            server = request.getfixturevalue("stoppable_nats")
            server.start()
            stream = NatsOwnStream(server)
            yield stream, stream.topic
        case _:
            with closing(PostgresTable(request.getfixturevalue("stoppable_postgres"))) as table:
                yield table, table.topic


def test_kills_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, database: Database, place: tuple[Kafka | Broker, str], measured: Measured
) -> None:
    killed(deploy(database, *place, log={"level": "debug"}, **EXACTLY_ONCE), 6, measured)


@pytest.mark.chaos
def test_fifty_kills_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, database: Database, place: tuple[Kafka | Broker, str], measured: Measured
) -> None:
    killed(deploy(database, *place, log={"level": "debug"}, **EXACTLY_ONCE), 50, measured)


def killed(deployment: Deployment, times: int, measured: Measured) -> None:
    """Its relay again and again, at any moment; then everything is there once and in order."""
    rng = random.Random(40)
    with Writers(deployment.database, seed=40) as writers:
        for _ in range(times):
            relay = deployment.launch()
            if phase := rng.choice(["", "streaming", "confirmed", "confirmed"]):  # it may die while it starts, too
                relay.wait_for(phase)
            relay.lives_for(rng.uniform(0, 0.3))
            relay.kill()
    deployment.start()
    deployment.catch_up()
    delivery = assert_delivered(deployment, writers)
    measured(f"exactly once, after {times} kills of the relay", delivery)
    assert delivery.duplicates == 0


@pytest.mark.parametrize("end", [KafkaServer.stop, KafkaServer.kill], ids=["stopped", "killed"])
def test_broker_restarts_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, database: Database, broker: KafkaServer, end: Callable[[KafkaServer], None]
) -> None:
    deployment = deploy(database, broker, broker.create_topic(partitions=3), **EXACTLY_ONCE)
    deployment.start()
    with Writers(database, seed=41) as writers:
        for _ in range(2):
            writers.wait_for_more(300)
            end(broker)
            writers.wait_for_more(300)
            broker.start()
        writers.wait_for_more(300)
    deployment.catch_up(60)
    assert assert_delivered(deployment, writers).duplicates == 0


@pytest.mark.parametrize("place", [KAFKA, *IN_CHAOS], indirect=True)
@pytest.mark.parametrize("crashes", [2, pytest.param(6, marks=pytest.mark.chaos)])
def test_postgres_crashes_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, private_postgres: PostgresMaker, place: tuple[Kafka | Broker, str], crashes: int
) -> None:
    """A crash sets the slot back (guarantees A10), the relay dies with it each other time; the sink has the
    position.
    """
    server = private_postgres()
    deployment = deploy(server.create_database(), *place, **EXACTLY_ONCE)
    deployment.start()
    with Writers(deployment.database, seed=42) as writers:
        for crash in range(crashes):
            written = deployment.position()
            writers.wait_for_more(300)
            before = wait_until(partial(confirmed_after, deployment, written), 20, "the events to be confirmed")
            server.stop("immediate")
            if crash % 2:
                deployment.relays[-1].kill()
            server.start()
            if crash % 2:
                assert deployment.slot.confirmed < before, "the server forgot nothing, so nothing was tested"
                deployment.start()
        writers.wait_for_more(300)
    deployment.catch_up()
    assert assert_delivered(deployment, writers).duplicates == 0


@pytest.mark.parametrize("place", [KAFKA, *IN_CHAOS], indirect=True)
@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.chaos)])
def test_a_frozen_relay_that_wakes_up_is_fenced_off(
    deploy: Deploy, private_postgres: PostgresMaker, place: tuple[Kafka | Broker, str], times: int
) -> None:
    """Two relays fight over the slot: the one that leads is frozen, and woken when the other leads."""
    server = private_postgres(wal_sender_timeout="2s")
    deployment = deploy(server.create_database(), *place, **EXACTLY_ONCE)
    leader, standby = deployment.start(), deployment.launch()
    standby.wait_for("standing by")
    with Writers(deployment.database, seed=43) as writers:
        for _ in range(times):
            stood_by, led = len(leader.events("standing by")), len(standby.events("streaming"))
            writers.wait_for_more(300)
            leader.send(signal.SIGSTOP)
            standby.wait_for("streaming", more_than=led)
            writers.wait_for_more(300)
            leader.send(signal.SIGCONT)
            leader.wait_for("standing by", more_than=stood_by)
            leader, standby = standby, leader
        writers.wait_for_more(300)
    deployment.catch_up()
    assert assert_delivered(deployment, writers).duplicates == 0


@pytest.mark.parametrize("place", ["nats", "postgres"], indirect=True)
def test_kills_of_the_target_under_load_lose_repeat_and_reorder_nothing(
    deploy: Deploy, database: Database, place: tuple[Broker, str]
) -> None:
    broker, topic = place
    deployment = deploy(database, broker, topic, **EXACTLY_ONCE)
    deployment.start()
    with Writers(database, seed=44) as writers:
        for _ in range(2):
            writers.wait_for_more(300)
            broker.kill()
            writers.wait_for_more(300)
            broker.start()
        writers.wait_for_more(300)
    deployment.catch_up(60)
    assert assert_delivered(deployment, writers).duplicates == 0


@pytest.mark.chaos
@pytest.mark.parametrize("place", ["nats", "postgres"], indirect=True)
def test_a_transaction_larger_than_a_group_is_cut_and_resumed_where_it_was(
    deploy: Deploy, database: Database, place: tuple[Kafka | Broker, str]
) -> None:
    deployment = deploy(database, *place, **EXACTLY_ONCE)
    deployment.write_rows(100_000)
    relay = deployment.start()
    wait_until(deployment.delivered, 20, "a part of the transaction")
    relay.kill()
    assert len(deployment.delivered()) < 100_000, "all of it was there at once, so nothing was tested"
    deployment.start()
    deployment.catch_up(60)
    assert assert_delivered(deployment).duplicates == 0


def test_a_transaction_that_would_keep_a_group_open_for_too_long_is_cut_and_resumed_where_it_was(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic, sink={"transaction_timeout": 1, "group_interval": 0.1}, **EXACTLY_ONCE)
    deployment.write_rows(ROWS)
    for _ in range(3):
        relay = deployment.start()
        relay.lives_for(0.5)  # long enough for a part or two, too short for all
        relay.kill()
    deployment.start()
    deployment.catch_up(60)
    kept = deployment.kafka.read_all("walrelay.positions")
    positions = [RelayPosition.of_json(message.value or b"") for message in kept]
    assert len([each for each in positions if each.slot == deployment.slot_name and each.ordinal]) >= 3
    ids = deployment.delivered_ids()
    assert len(set(ids)) == len(ids) == ROWS
    assert_delivered(deployment)


def test_settings_that_count_records_in_another_way_wait_for_the_end_of_a_transaction_that_is_cut(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    """Else the ordinal of the first unpublished record is another one's, and events are skipped in silence."""
    with_messages = {"messages": {"prefix": "walrelay", "writers": ["public"]}}
    deployment = deploy(database, kafka, topic, outbox=with_messages, **EXACTLY_ONCE)
    event = json.dumps({"id": str(uuid4()), "aggregate_id": "a", "payload": 1})
    with database.connect(autocommit=False) as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [event])
        connection.execute("SELECT pg_logical_emit_message(true, 'walrelay', 'not an event')")
        connection.execute("SELECT walrelay.emit('thing', 'a', 'Happened', to_jsonb(n)) FROM generate_series(2, 3) n")
    cure = stopped(deployment)["hint"]
    deployment.write_settings(outbox={"messages": {"prefix": None, "writers": []}})
    refused = stopped(deployment)
    assert "which was counted with outbox.messages.prefix: walrelay, not null" in refused["error"]
    assert [message.value for message in deployment.delivered()] == [b"1"]
    deployment.write_settings(outbox=with_messages)
    command = re.search(r"`walrelay (skip --position \S+)`", cure)
    assert command is not None
    deployment.command(*command[1].split(), "--yes")
    deployment.start()
    deployment.catch_up()
    deployment.relays[-1].stop()
    deployment.write_settings(outbox={"messages": {"prefix": None, "writers": []}})
    deployment.start()
    deployment.write("4")
    deployment.catch_up()
    assert [message.value for message in deployment.delivered()] == [b"1", b"2", b"3", b"4"]


def test_no_event_gets_into_the_topic_of_the_positions(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    """Neither by its row nor by a replay: the last record of a key there says where a relay begins."""
    deployment = deploy(database, kafka, topic, refusals={"policy": "dead_letter"}, **EXACTLY_ONCE)
    deployment.start()
    deployment.write("1")
    (wrong,) = deployment.write("2", topic="walrelay.positions")
    deployment.catch_up()
    (letter,) = [json.loads(line) for line in deployment.command("dlq", "export").splitlines()]
    assert (letter["id"], letter["error"]) == (wrong, "unroutable")
    replay = (WALRELAY, "replay", "--all", "--topic", "walrelay.positions", "--config", deployment.config)
    done = subprocess.run(replay, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "is where relays keep their positions" in done.stderr
    assert [message for message in kafka.read_all("walrelay.positions") if message.headers] == []


def stopped(deployment: Deployment) -> dict[str, Any]:
    """The last line of a relay that stops."""
    relay = deployment.launch()
    assert relay.wait(30) == 1
    (fatal,) = relay.events("fatal")
    return fatal


def confirmed_after(deployment: Deployment, lsn: LSN) -> LSN:
    """What is confirmed, once that is more than `lsn`; before that nothing is."""
    confirmed = deployment.slot.confirmed
    return confirmed if confirmed > lsn else ZERO
