"""The outbox of EF Core, relayed as it is: written as its own writers do, and read from each broker."""

import json
from datetime import UTC, datetime, timedelta, timezone
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from tests.acceptance.adopting import SYSTEMS, Adopted, headers, insert, relayed
from tests.acceptance.conftest import Deploy
from tests.brokers.rabbitmq import RabbitmqQueue
from tests.brokers.servicebus import ServicebusEntity
from tests.servers.database import Database
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.servicebus import ServicebusPeer


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
