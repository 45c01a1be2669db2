"""Whoever watches a relay is told the truth: which side stalls, since when, and when it is over."""

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.watching import Watcher
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until

WATCHED: dict[str, Any] = {"http": {"listen": "127.0.0.1:0"}, "health": {"stall_after": 1}}


def watched(deploy: Deploy, database: Database, kafka: Kafka, topic: str, **sections: Any) -> Deployment:
    return deploy(database, kafka, topic, **WATCHED, **sections)


def test_a_relay_that_publishes_is_well_and_its_numbers_are_those_of_its_events(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = watched(
        deploy, database, kafka, topic, metrics={"aliases": {"outbox_backlog": "walrelay_lag_seconds"}}
    )
    watcher = Watcher(deployment.start())
    deployment.write("1", "2")
    deployment.write("3")
    deployment.catch_up()
    for path in ("/healthz", "/readyz", "/startupz"):
        assert watcher.turns(200, "nobody", path, state="streaming")["why"] == "nothing to read"
    assert watcher.metric("walrelay_records_total") == 3
    of_topic = {"messaging_system": "kafka", "messaging_destination_name": topic}
    assert watcher.metric("messaging_client_sent_messages_total", **of_topic) == 3
    assert watcher.metric("walrelay_sent_bytes_total", **of_topic) == 3
    assert watcher.metric("walrelay_published_messages_total") == 3
    assert watcher.metric("walrelay_in_flight_messages") == 0
    assert watcher.metric("walrelay_publish_latency_seconds_count") == 2
    assert watcher.metric("walrelay_transaction_records_sum") == 3
    assert watcher.metric("walrelay_leader") == 1
    assert watcher.metric("walrelay_state", state="streaming") == 1
    assert watcher.metric("walrelay_slot_active") == 1
    assert watcher.metric("walrelay_slot_wal_status", wal_status="reserved") == 1
    assert watcher.metric("walrelay_lag_seconds") == watcher.metric("outbox_backlog") == 0
    assert (watcher.metric("walrelay_outbox_bytes") or 0) > 0
    assert watcher.get("/elsewhere")[0] == 404


def test_a_broker_that_acknowledges_nothing_is_red_until_it_does(
    deploy: Deploy, database: Database, broker: KafkaServer
) -> None:
    deployment = watched(deploy, database, broker, broker.create_topic())
    watcher = Watcher(deployment.start())
    deployment.write("1")
    deployment.catch_up()
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        deployment.write("2")
        red = watcher.turns(503, "sink", state="waiting")
        assert red["why"].startswith("1 messages wait: ")
        assert watcher.health("/healthz")[0] == 200, "a restart would not help"
        wait_until(lambda: (watcher.metric("walrelay_lag_seconds") or 0) > 1, 30, "the lag to grow")
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    watcher.turns(200, "nobody")
    deployment.catch_up()


def test_a_server_that_sends_nothing_is_red_until_it_does(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str
) -> None:
    """The stream is given up after a while, and then its frozen process still has the lead."""
    database = private_postgres().create_database()
    deployment = watched(deploy, database, kafka, topic, source={"receive_timeout": 8})
    watcher = Watcher(deployment.start())
    deployment.write("1")
    deployment.catch_up()
    walsender = deployment.slot.pid
    assert walsender is not None
    os.kill(walsender, signal.SIGSTOP)
    try:
        deployment.write("2")
        assert "sends nothing" in watcher.turns(503, "postgres", state="streaming")["why"]
        watcher.turns(503, "leader", state="standing by")
    finally:
        os.kill(walsender, signal.SIGCONT)
    watcher.turns(200, "nobody", state="streaming")
    deployment.catch_up()


def test_a_server_that_is_away_is_red_until_it_is_back(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str
) -> None:
    server = private_postgres()
    deployment = watched(deploy, server.create_database(), kafka, topic)
    watcher = Watcher(deployment.start())
    server.stop()
    red = watcher.turns(503, "postgres", state="retrying")
    assert red["hint"] == "walrelay doctor"
    assert watcher.metric("walrelay_postgres_up") == 0
    assert watcher.health("/healthz")[0] == 200
    server.start()
    watcher.turns(200, "nobody", state="streaming")


def test_a_standby_is_ready_and_takes_over(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> None:
    deployment = watched(deploy, database, kafka, topic)
    leader = deployment.start()
    standby = deployment.launch()
    watcher = Watcher(standby)
    watcher.turns(200, "nobody", state="standing by")
    assert watcher.metric("walrelay_leader") == 0
    leader.stop()
    watcher.turns(200, "nobody", state="streaming")
    assert watcher.metric("walrelay_leader") == 1


def test_an_event_that_is_refused_is_told_with_what_to_do(
    deploy: Deploy, database: Database, second: Database, kafka: Kafka, tmp_path: Path
) -> None:
    """The other relay of the process goes on, so that there is somebody to ask."""
    orders = deploy(database, kafka, kafka.create_topic())
    invoices = deploy(second, kafka, kafka.create_topic())
    settings = {name: yaml.safe_load(each.config.read_text()) for name, each in (("o", orders), ("i", invoices))}
    for each in settings.values():
        each.pop("log")
    defaults = WATCHED | {"log": {"format": "json"}}
    config = tmp_path / "relays.yaml"
    config.write_text(yaml.safe_dump({"defaults": defaults, "relays": settings}))
    relay = RelayProcess(config)
    orders.relays.append(relay)
    watcher = Watcher(relay)
    for each in (orders, invoices):
        relay.wait_for("streaming", containing=each.slot_name)
    orders.write('"' + "x" * 1_200_000 + '"')  # above the client's limit
    relay.wait_for("fatal")
    status, text = watcher.get("/readyz")
    of = {each["relay"]: each for each in json.loads(text)["relays"]}
    ended, other = of["o"], of["i"]
    assert (status, ended["state"], ended["waits_for"]) == (503, "failed", "policy")
    assert "max" in ended["hint"]
    assert other["ready"]
    assert watcher.get("/healthz")[0] == 200, "a restart would not help"


def test_systemd_is_told_when_the_relay_is_ready_alive_and_stopping(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "3000000")
        deployment = deploy(database, kafka, topic)
        relay = deployment.launch()

        def hear(text: str) -> None:
            while systemd.recv(1000).decode() != text:
                pass

        hear("READY=1")
        hear("STATUS=streaming")
        hear("WATCHDOG=1")
        relay.send(signal.SIGTERM)
        hear("STOPPING=1")
        assert relay.wait() == 0
