"""An event store, relayed as it is: written as its own writers do; and its publishers, side by side."""

import json
import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
import yaml
from psycopg.types.json import Jsonb

from tests.acceptance.adopting import SYSTEMS, Adopted, headers, insert, relayed
from tests.acceptance.deployment import header
from tests.acceptance.relay_process import WALRELAY, RelayProcess
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from tests.servers.webhook import WebhookReceiver
from walrelay.lsn import LSN


def test_event_store(adopted: Adopted, topic: str) -> None:
    """Topics by tags: an event goes to each of those that it belongs to, in the order of the commits."""
    wallets, payments = f"{topic}.wallets", f"{topic}.payments"
    deployment = adopted(
        "event-store",
        route={"topic": topic},
        routes=[
            {
                "name": "wallet-events",
                "when": {"column.tags": {"tags": {"required": ["wallet_id"]}}},
                "topic": wallets,
                "key": "{column.tags|tag:wallet_id}",
                "continue": True,
            },
            {
                "name": "payment-events",
                "when": {"column.tags": {"tags": {"any_of": ["payment_id", "transfer_id"]}}},
                "topic": payments,
                "continue": True,
            },
            {"name": "system", "when": {"column.tags": {"tags": {"exactly": ["system"]}}}},
        ],
    )
    for each in (wallets, payments):
        deployment.kafka.create_topic(each)
    moment = datetime(2026, 11, 23, 2, 9, 51, tzinfo=UTC)

    def append(connection: psycopg.Connection[Any], type_: str, *tags: str) -> None:
        insert(connection, "events", type=type_, tags=[*tags], data=Jsonb({"n": type_}), occurred_at=moment)

    with relayed(deployment) as connection, deployment.database.connect(autocommit=False) as earlier:
        append(earlier, "WalletOpened", "wallet_id=42")  # takes the first position, and commits last
        append(connection, "MoneyTransferred", "wallet_id=a b", "transfer_id=7", "other_wallet_id=1")
        append(connection, "Started", "system")
        connection.commit()
        earlier.commit()
    second, first = deployment.kafka.read_all(wallets)
    assert [(each.key, header(each, "id")) for each in (second, first)] == [(b"a b", "2"), (b"42", "1")]
    assert (second.value, headers(first)) == (
        b'{"n": "MoneyTransferred"}',
        {"occurred-at": "2026-11-23T02:09:51Z", "id": "1", "type": "WalletOpened"},
    )
    assert [header(each, "id") for each in deployment.kafka.read_all(payments)] == ["2"]
    assert [header(each, "id") for each in deployment.delivered()] == ["3"]


PUBLISHERS = ["kafka", "webhook", "statistics"]


class Publishers(NamedTuple):
    """A relay for each publisher, in one file, over one event store."""

    database: Database
    config: Path

    def slot(self, name: str) -> str:
        return f"{name}_{self.database.name}"

    def start(self) -> RelayProcess:
        relay = RelayProcess(self.config)
        for name in PUBLISHERS:
            relay.wait_for("streaming", containing=self.slot(name))
        return relay

    def confirmed(self, name: str) -> LSN:
        """How far that publisher is."""
        statement = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        ((lsn,),) = self.database.execute(statement, [self.slot(name)])
        return LSN.parse(lsn)

    def wait(self, *names: str) -> LSN:
        """Until those have confirmed all that is committed by now, which is returned."""
        ((text,),) = self.database.execute("SELECT pg_current_wal_insert_lsn()::text")
        end = LSN.parse(text)
        wait_until(lambda: all(self.confirmed(name) >= end for name in names), 60, f"{names} to confirm {end}")
        return end

    def append(self, numbers: range) -> None:
        """Each event in a transaction of its own; every third belongs to both topics."""
        with self.database.connect() as connection:
            for number in numbers:
                tags = [f"wallet_id={number % 5}", *([f"payment_id={number}"] if number % 3 == 0 else [])]
                insert(connection, "events", type="Moved", tags=tags, data=Jsonb({"n": number}))


@pytest.fixture
def publishers(
    database: Database, kafka: Kafka, topic: str, stoppable_webhook: WebhookReceiver, tmp_path: Path
) -> Iterator[Publishers]:
    database.execute((SYSTEMS / "event-store.sql").read_text())
    payments = kafka.create_topic(f"{topic}.payments", partitions=1)
    made = Publishers(database, tmp_path / "walrelay.yaml")
    wallet, payment = ({"column.tags": {"tags": {"any_of": [tag]}}} for tag in ("wallet_id", "payment_id"))
    key = "{column.tags|tag:wallet_id}"
    sinks: dict[str, dict[str, Any]] = {
        "kafka": {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers},
        "webhook": {
            "kind": "webhook",
            "url": f"{stoppable_webhook.url}/{{topic}}",
            "allow_private_addresses": True,
        },
        "statistics": {"kind": "statistics", "interval": 0.2},
    }
    settings = {
        "defaults": {
            "source": {"dsn": database.dsn},
            "outbox": {"preset": "event-store"},
            "routes": [
                {"name": "wallets", "when": wallet, "topic": topic, "key": key, "continue": True},
                {"name": "payments", "when": payment, "topic": payments, "key": key, "continue": True},
                {"name": "no-topic", "drop": True},
            ],
            "retry": {"max_pause": 1},
            "log": {"format": "json"},
        },
        "relays": {name: {"source": {"slot": made.slot(name)}, "sink": sink} for name, sink in sinks.items()},
    }
    made.config.write_text(yaml.safe_dump(settings))
    subprocess.run([WALRELAY, "init", "--config", made.config], check=True, capture_output=True, timeout=60)
    yield made
    kafka.delete_topics(payments)


def in_order(messages: Iterable[tuple[bytes | None, bytes | None]]) -> dict[bytes | None, list[int]]:
    """key -> its events in the order of their first arrival."""
    found: dict[bytes | None, dict[int, None]] = {}
    for key, value in messages:
        found.setdefault(key, {})[json.loads(value or b"")["n"]] = None
    return {key: [*events] for key, events in found.items()}


def test_event_store_to_kafka_a_webhook_and_statistics_side_by_side_each_with_its_own_progress(
    publishers: Publishers, kafka: Kafka, topic: str, stoppable_webhook: WebhookReceiver
) -> None:
    relay = publishers.start()
    publishers.append(range(60))
    publishers.wait(*PUBLISHERS)
    stoppable_webhook.kill()
    publishers.append(range(60, 120))
    end = publishers.wait("kafka", "statistics")
    assert publishers.confirmed("webhook") < end, "its receiver is away, and the others went on"
    relay.wait_for("stalled", containing="webhook")
    relay.kill()  # and each begins again where it was
    relay = publishers.start()
    publishers.append(range(120, 150))
    publishers.wait("kafka", "statistics")
    stoppable_webhook.start()
    publishers.wait(*PUBLISHERS)
    relay.stop()
    wallets = {str(key).encode(): [*range(key, 150, 5)] for key in range(5)}
    payments = {str(key).encode(): [n for n in range(key, 150, 5) if n % 3 == 0] for key in range(5)}
    for place, expected in ((topic, wallets), (f"{topic}.payments", payments)):
        assert in_order((each.key, each.value) for each in kafka.read_all(place)) == expected
        requests = stoppable_webhook.requests(f"/{place}")
        keyed = [((each.header("key") or "").encode(), each.body) for each in requests]
        assert in_order(keyed) == expected
    counted = {entry["topic"]: entry["total"] for entry in relay.events("statistics")}
    assert counted[topic] >= 30, "since the process began, which may have begun a little before where it was"
    assert counted[f"{topic}.payments"] >= 10
    assert {entry["relay"] for entry in relay.events("statistics")} == {"statistics"}


def test_a_publisher_of_the_event_store_stops_alone_and_goes_on_where_it_was(
    publishers: Publishers, kafka: Kafka, topic: str
) -> None:
    """Each publisher in a process of its own, which is how one of them is paused."""
    relays = {name: RelayProcess(publishers.config, "--relay", name) for name in PUBLISHERS}
    for name, relay in relays.items():
        relay.wait_for("streaming", containing=publishers.slot(name))
    publishers.append(range(30))
    paused_at = publishers.wait(*PUBLISHERS)
    relays.pop("kafka").stop()
    publishers.append(range(30, 60))
    publishers.wait("webhook", "statistics")
    status = subprocess.run([WALRELAY, "status", "--json", "--config", publishers.config], capture_output=True)
    lag = {each["relay"]: each for each in map(json.loads, status.stdout.splitlines())}
    assert {*lag} == {*PUBLISHERS}
    assert len(kafka.read_all(topic)) == 30
    assert publishers.confirmed("kafka") >= paused_at
    relays["kafka"] = RelayProcess(publishers.config, "--relay", "kafka")
    publishers.wait(*PUBLISHERS)
    assert len(kafka.read_all(topic)) == 60, "a stop in good order repeats nothing"
    for relay in relays.values():
        relay.stop()
