"""The outbox of a multi-tenant service, relayed as it is: written as its own writers do."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from psycopg.types.json import Json

from tests.acceptance.adopting import SYSTEMS, Adopted, headers, insert, relayed
from tests.acceptance.conftest import Deploy
from tests.brokers.pulsar import PulsarTopic, make, make_tenant, read
from tests.servers.database import Database
from tests.servers.pulsar import PulsarServer


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
