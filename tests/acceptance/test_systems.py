"""Outbox tables of other workers, relayed as they are: each is written as its own writers do, and read from Kafka."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
import yaml
from psycopg.types.json import Json, Jsonb

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, header
from tests.acceptance.relay_process import WALRELAY, RelayProcess
from tests.brokers.pulsar import PulsarTopic, make, make_tenant, read
from tests.brokers.rabbitmq import RabbitmqQueue
from tests.brokers.servicebus import ServicebusEntity
from tests.servers.database import Database
from tests.servers.pulsar import PulsarServer
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.servicebus import ServicebusPeer
from tests.servers.topics import Kafka, Received
from tests.servers.waiting import wait_until
from tests.servers.webhook import WebhookReceiver
from walrelay.cli import main
from walrelay.config import parse, presets
from walrelay.lsn import LSN

SYSTEMS = Path(__file__).parent / "systems"

Adopted = Callable[..., Deployment]


@pytest.fixture
def adopted(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Adopted:
    """A deployment on that system's table, with its preset."""

    def made(preset: str, **sections: Any) -> Deployment:
        database.execute((SYSTEMS / f"{preset}.sql").read_text())
        return deploy(database, kafka, topic, **{"outbox": {"preset": preset}, "route": {}, **sections})

    return made


@contextmanager
def relayed(deployment: Deployment) -> Iterator[psycopg.Connection[Any]]:
    """A writer's connection; at the end all that was written is in Kafka."""
    relay = deployment.start()
    with deployment.database.connect(autocommit=False) as connection:
        yield connection
    deployment.catch_up()
    relay.stop()


def headers(message: Received) -> dict[str, str | None]:
    """The headers but for the position, which is another each time."""
    found = {name: None if value is None else value.decode() for name, value in message.headers}
    assert len(found) == len(message.headers)
    return {name: value for name, value in found.items() if name != "position"}


def insert(connection: psycopg.Connection[Any], table: str, **row: object) -> None:
    names = ", ".join(row)
    places = ", ".join(["%s"] * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})".encode(), [*row.values()])


def test_ef_core(adopted: Adopted) -> None:
    """Npgsql sends uuid and timestamptz, and JSON as text; the type is assembly-qualified."""
    deployment = adopted("ef-core")
    created, paid = (f"Acme.Llm.Domain.Events.{name}{uuid4().hex}" for name in ("TenantCreated", "InvoicePaid"))
    for each in (created, paid):
        deployment.kafka.create_topic(each)
    ids, now = [uuid4(), uuid4()], datetime.now(timezone(timedelta(hours=2)))
    with relayed(deployment) as connection:
        for id_, type_ in zip(ids, (created, paid), strict=True):
            full = f"{type_}, Acme.Llm, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null"
            content = '{"tenantId": 7, "displayName": "Ünïcode", "amount": 12.50}'
            insert(connection, "messaging.outbox_messages", id=id_, type=full, content=content, created_at=now)
        connection.commit()
        connection.execute("UPDATE messaging.outbox_messages SET processed_at = now()")  # the worker beside it
    for id_, type_ in zip(ids, (created, paid), strict=True):
        (message,) = deployment.kafka.read_all(type_)
        assert message.key is None
        assert message.value == '{"amount": 12.50, "tenantId": 7, "displayName": "Ünïcode"}'.encode()
        assert headers(message) == {
            "id": str(id_),
            "type": f"{type_}, Acme.Llm, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null",
        }


def test_ef_core_for_consumers_of_masstransit(adopted: Adopted, topic: str) -> None:
    deployment = adopted(
        "ef-core", route={"envelope": {"kind": "masstransit"}}, routes=[{"name": "all", "topic": topic}]
    )
    id_, content = uuid4(), {"tenantId": 7}
    full = "Acme.Llm.Domain.Events.TenantCreated, Acme.Llm, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null"
    with relayed(deployment) as connection:
        row = {"id": id_, "type": full, "content": Jsonb(content), "created_at": datetime.now(UTC)}
        insert(connection, "messaging.outbox_messages", **row)
    (message,) = deployment.delivered()
    envelope = json.loads(message.value or b"")
    assert (envelope["messageId"], envelope["message"]) == (str(id_), content)
    assert envelope["messageType"] == ["urn:message:Acme.Llm.Domain.Events:TenantCreated"]


def test_ef_core_into_rabbitmq_for_consumers_of_masstransit(
    deploy: Deploy, database: Database, stoppable_rabbitmq: RabbitmqServer
) -> None:
    """An exchange for each type of message, of type fanout, with the name that MassTransit gives it."""
    database.execute((SYSTEMS / "ef-core.sql").read_text())
    stoppable_rabbitmq.start()
    queue, name = RabbitmqQueue(stoppable_rabbitmq), f"TenantCreated{uuid4().hex}"
    queue.bind(f"Acme.Llm.Domain.Events:{name}", "fanout", "")
    deployment = deploy(
        database,
        queue,
        queue.topic,
        outbox={"preset": "ef-core"},
        route={"envelope": {"kind": "masstransit"}},
        routes=[{"name": "by-type", "topic": '{type|regex:"^([\\w.]+)[.]"}:{type|short_name}'}],
        sink={**queue.sink, "exchange": "{topic}", "routing_key": ""},
    )
    ids = [str(uuid4()) for _ in range(3)]
    full = f"Acme.Llm.Domain.Events.{name}, Acme.Llm, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null"
    with relayed(deployment) as connection:
        for id_ in ids:
            row = {"id": id_, "type": full, "content": Jsonb({"tenantId": 7}), "created_at": datetime.now(UTC)}
            insert(connection, "messaging.outbox_messages", **row)
        connection.commit()
    properties = queue.properties()
    assert [each.message_id for each in properties] == ids
    assert {each.content_type for each in properties} == {"application/vnd.masstransit+json"}
    envelopes = [json.loads(message.value or b"") for message in queue.read_all()]
    assert [envelope["messageId"] for envelope in envelopes] == ids
    assert envelopes[0]["messageType"] == [f"urn:message:Acme.Llm.Domain.Events:{name}"]


@pytest.mark.slow
def test_ef_core_into_azure_service_bus(
    deploy: Deploy, database: Database, stoppable_servicebus: ServicebusPeer
) -> None:
    """The body is the JSON; subject, content type, message id and session are where its consumers look for them."""
    database.execute((SYSTEMS / "ef-core.sql").read_text())
    entity = ServicebusEntity(stoppable_servicebus)
    rule = {"name": "all", "topic": entity.topic, "key": "{payload.tenantId}"}
    deployment = deploy(
        database,
        entity,
        entity.topic,
        outbox={"preset": "ef-core"},
        route={},
        routes=[{**rule, "headers": {"set": {"subject": "{type|short_name}"}}}],
        sink={**entity.sink, "content_type": "application/json"},
    )
    ids = [str(uuid4()) for _ in range(3)]
    full = "Acme.Llm.Domain.Events.TenantCreated, Acme.Llm, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null"
    with relayed(deployment) as connection:
        for id_ in ids:
            row = {"id": id_, "type": full, "content": Jsonb({"tenantId": 7}), "created_at": datetime.now(UTC)}
            insert(connection, "messaging.outbox_messages", **row)
        connection.commit()
    stored = entity.stored()
    assert [each.message_id for each in stored] == ids
    assert {each[1:5] for each in stored} == {("7", "TenantCreated", None, "application/json")}
    assert {each.body for each in stored} == {b'{"tenantId": 7}'}
    assert dict(stored[0].properties)["type"] == full.encode()


def test_event_log_into_a_topic_exchange_of_rabbitmq(
    deploy: Deploy, database: Database, stoppable_rabbitmq: RabbitmqServer
) -> None:
    """Projections bind to what they want, and recognise a repetition by message_id."""
    database.execute((SYSTEMS / "event-log.sql").read_text())
    stoppable_rabbitmq.start()
    queue = RabbitmqQueue(stoppable_rabbitmq)
    queue.bind(f"{queue.topic}-exchange", "topic", "patients.PatientAdmitted")
    other = RabbitmqQueue(stoppable_rabbitmq)
    other.bind(f"{queue.topic}-exchange", "topic", "patients.#")
    deployment = deploy(
        database,
        queue,
        queue.topic,
        outbox={"preset": "event-log"},
        route={"topic": "patients"},
        sink={**queue.sink, "exchange": f"{queue.topic}-exchange", "routing_key": "{topic}.{header.type}"},
    )
    types = ["PatientAdmitted", "PatientMoved", "PatientAdmitted"]
    ids = [str(uuid4()) for _ in types]
    with relayed(deployment) as connection:
        for id_, type_ in zip(ids, types, strict=True):
            row = {"aggregate_id": "Patient-7", "event_type": type_, "event_data": Jsonb({"ward": "A"})}
            insert(connection, "outbox", **row, id=id_, metadata=Jsonb({"userId": "dr.who"}))
        connection.commit()
    assert [each.message_id for each in queue.properties()] == [ids[0], ids[2]]
    assert [(each.message_id, each.type) for each in other.properties()] == [*zip(ids, types, strict=True)]


def test_event_log(adopted: Adopted, topic: str) -> None:
    """Event and outbox row in one transaction; metadata is an object, or NULL."""
    deployment = adopted("event-log", route={"topic": topic})
    first, second, lost = uuid4(), uuid4(), uuid4()
    with relayed(deployment) as connection:

        def append(id_: UUID, version: int, metadata: object) -> None:
            row = {"aggregate_id": "Patient-7", "event_type": "PatientAdmitted", "event_data": Jsonb({"ward": "A"})}
            insert(connection, "event_store", **row, version=version)
            insert(connection, "outbox", **row, id=id_, metadata=metadata)
            connection.commit()

        append(first, 1, Jsonb({"userId": "dr.who", "correlationId": "c-1", "attempt": 2, "at": {"ward": "A"}}))
        append(second, 2, None)
        connection.execute("UPDATE outbox SET published = true, published_at = now(), retry_count = 1")
        connection.commit()
        with pytest.raises(psycopg.errors.UniqueViolation):
            append(lost, 2, None)
        connection.rollback()
    one, two = deployment.delivered()
    assert (one.key, one.value, two.key) == (b"Patient-7", b'{"ward": "A"}', b"Patient-7")
    metadata = {"userId": "dr.who", "correlationId": "c-1", "attempt": "2", "at": '{"ward":"A"}'}
    assert headers(one) == {**metadata, "id": str(first), "type": "PatientAdmitted"}
    assert headers(two) == {"id": str(second), "type": "PatientAdmitted"}


def test_multi_tenant(adopted: Adopted, topic: str) -> None:
    """SQLAlchemy sends ids as text, json with its spaces, and times with any zone."""
    deployment = adopted("multi-tenant")
    occurred = datetime(2026, 11, 23, 4, 9, 51, 120_000, timezone(timedelta(hours=2)))
    row = {"tenant_id": "acme", "aggregate_id": "o-1", "aggregate_type": "Order", "topic": topic}
    with relayed(deployment) as connection:
        insert(
            connection,
            "outbox",
            **row,
            id="0190-a",
            occurred_at=occurred,
            payload='{"total":  12.50}',
            event_metadata=Json({"causation_id": "x", "correlation_id": None}),
            routing_key="orders.eu",
            schema_id="order.placed",
            schema_version=3,
        )
        insert(connection, "outbox", **row, id="0190-b", occurred_at=occurred.replace(microsecond=0), payload="{}")
    one, two = deployment.delivered()
    assert (one.key, one.value) == (b"o-1", b'{"total":  12.50}')
    assert headers(one) == {
        "causation_id": "x",
        "correlation_id": None,
        "tenant-id": "acme",
        "routing-key": "orders.eu",
        "schema-id": "order.placed",
        "schema-version": "3",
        "occurred-at": "2026-11-23T02:09:51.12Z",
        "id": "0190-a",
    }
    rest = {"tenant-id": "acme", "schema-version": "1", "occurred-at": "2026-11-23T02:09:51Z", "id": "0190-b"}
    assert headers(two) == rest


@pytest.mark.slow
@pytest.mark.java
def test_multi_tenant_into_pulsar(deploy: Deploy, database: Database, stoppable_pulsar: PulsarServer) -> None:
    """A namespace for each tenant; in the order of each aggregate, also when the relay is killed meanwhile."""
    database.execute((SYSTEMS / "multi-tenant.sql").read_text())
    place = PulsarTopic(stoppable_pulsar)
    tenants = [make_tenant(stoppable_pulsar) for _ in range(2)]
    for tenant in tenants:
        make(stoppable_pulsar, f"persistent://{tenant}/events/{place.topic}", 3)
    deployment = deploy(
        database,
        place,
        place.topic,
        outbox={"preset": "multi-tenant"},
        route={},
        sink={**place.sink, "topic": "persistent://{header.tenant-id}/events/{topic}", "null_headers": "omit"},
    )
    occurred = datetime(2026, 11, 23, 4, 9, 51, 120_000, timezone(timedelta(hours=2)))
    number = 0
    relay = deployment.start()
    for killed in range(3):
        with database.connect(autocommit=False) as connection:
            for _ in range(100):
                for tenant in tenants:
                    insert(
                        connection,
                        "outbox",
                        id=f"{tenant}-{number}",
                        tenant_id=tenant,
                        aggregate_id=f"order-{number % 7}",
                        aggregate_type="Order",
                        topic=place.topic,
                        occurred_at=occurred,
                        payload=f'{{"number":  {number}}}',
                        event_metadata=Json({"causation_id": "x", "correlation_id": None}),
                        routing_key="orders.eu",
                        schema_id="order.placed",
                        schema_version=3,
                    )
                connection.execute("UPDATE outbox SET status = 'SENT' WHERE status = 'NEW'")  # the worker beside it
                connection.commit()
                number += 1
        if killed < 2:
            relay.kill()
            relay = deployment.start()
    deployment.catch_up()
    relay.stop()
    for tenant in tenants:
        first: dict[str, Any] = {}
        for got in read(stoppable_pulsar, f"persistent://{tenant}/events/{place.topic}"):
            first.setdefault(got.properties()["id"], got)
        assert {*first} == {f"{tenant}-{each}" for each in range(number)}
        of_aggregates: dict[str, list[int]] = {}
        for got in first.values():
            of_aggregates.setdefault(got.partition_key(), []).append(json.loads(got.data())["number"])
        assert of_aggregates == {f"order-{key}": [*range(key, number, 7)] for key in range(7)}
        got = first[f"{tenant}-0"]
        assert got.data() == b'{"number":  0}'
        assert {name: value for name, value in got.properties().items() if name != "position"} == {
            "causation_id": "x",
            "tenant-id": tenant,
            "routing-key": "orders.eu",
            "schema-id": "order.placed",
            "schema-version": "3",
            "occurred-at": "2026-11-23T02:09:51.12Z",
            "id": f"{tenant}-0",
        }


def test_spring_cloud_stream(adopted: Adopted, topic: str) -> None:
    """Hibernate leaves out the id, and sends the payload as text; a binding with a destination, and one without."""
    placed, paid = f"OrderPlaced{uuid4().hex}", f"OrderPaid{uuid4().hex}"
    deployment = adopted(
        "spring-cloud-stream", routes=[{"name": "placed", "when": {"type": placed}, "topic": topic}, {"name": "others"}]
    )
    deployment.kafka.create_topic(f"{paid}-out-0")
    now = datetime.now(UTC).replace(tzinfo=None)
    with relayed(deployment) as connection:
        for type_, correlation in ((placed, "c-1"), (paid, None)):
            payload = '{"orderId":1,  "total":1.10}'
            insert(connection, "outbox", event_type=type_, payload=payload, correlation_id=correlation, created_at=now)
    (one,), (two,) = deployment.delivered(), deployment.kafka.read_all(f"{paid}-out-0")
    assert (one.key, one.value) == (two.key, two.value) == (None, b'{"orderId":1,  "total":1.10}')
    spring = {"contentType": "application/json"}
    for message, expected in (
        (one, {**spring, "correlation-id": "c-1", "event_id": "1", "type": placed}),
        (two, {**spring, "event_id": "2", "type": paid}),
    ):
        found = headers(message)
        types = json.loads(found.pop("spring_json_header_types") or "")
        assert found == expected
        assert types == dict.fromkeys([*expected, "position"], "java.lang.String")


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


Adopt = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def adopt(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Adopt:
    """`walrelay init --adopt TABLE` in this process: its exit code, and what it says on both streams."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database.dsn)

    def done(table: str) -> tuple[int, str, str]:
        code = 0
        try:
            main.main(["init", "--adopt", table])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capfd.readouterr()

    return done


@pytest.mark.parametrize("name", [name for name in presets.NAMES if name != "walrelay"])
def test_adopt_names_the_preset_of_a_table(database: Database, adopt: Adopt, name: presets.PresetName) -> None:
    database.execute((SYSTEMS / f"{name}.sql").read_text())
    table = presets.fragment(name)["outbox"]["table"]
    before = database.execute("SELECT oid::text FROM pg_class ORDER BY oid")
    _, printed, _ = adopt(table)
    assert database.execute("SELECT oid::text FROM pg_class ORDER BY oid") == before
    assert f"# {table} has all columns of the preset {name}." in printed
    assert parse(printed, "printed", {"DATABASE_URL": "host=db"}).outbox.preset == name


def test_adopt_proposes_roles_for_another_table_that_relay_its_rows(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    database.execute(
        'CREATE SCHEMA "Sales"; CREATE TABLE "Sales"."Out box" ("EventId" uuid, "on" text, "Body" json,'
        ' "StreamId" text, "OccurredAt" timestamp, "Twice" text GENERATED ALWAYS AS ("on") STORED)'
    )
    printed = adopted_settings(database, tmp_path, '"Sales"."Out box"')
    assert "suits no preset" in printed
    assert "# Not read: on." in printed
    outbox = yaml.safe_load(printed)["outbox"]
    deployment = deploy(database, kafka, topic, outbox=outbox)
    id_ = uuid4()
    with relayed(deployment) as connection:
        connection.execute('INSERT INTO "Sales"."Out box" VALUES (%s, %s, %s, %s, now())', [id_, "x", "[ 1]", "s-1"])
    (message,) = deployment.delivered()
    assert (message.key, message.value, headers(message)) == (b"s-1", b"[ 1]", {"id": str(id_)})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("nowhere", 'table "public"."nowhere" does not exist in database'),
        ("a_view", "is a view, which is not replicated"),
        ("empty", "no column of empty can be the id of an event"),
        ("Nowhere", "'Nowhere' has capitals: write nowhere"),
    ],
)
def test_adopt_says_why_it_cannot(database: Database, adopt: Adopt, table: str, said: str) -> None:
    database.execute("CREATE VIEW a_view AS SELECT 1 AS id; CREATE TABLE empty ()")
    code, _, error = adopt(table)
    assert code in (1, 2)
    assert said in error


def adopted_settings(database: Database, directory: Path, table: str) -> str:
    """What `init --adopt` prints, as an operator redirects it: the settings file is there, and empty."""
    with (directory / "walrelay.yaml").open("w") as empty:
        environment = {**os.environ, "DATABASE_URL": database.dsn}
        subprocess.run(
            [WALRELAY, "init", "--adopt", table], stdout=empty, cwd=directory, env=environment, timeout=60, check=True
        )
    return (directory / "walrelay.yaml").read_text()
