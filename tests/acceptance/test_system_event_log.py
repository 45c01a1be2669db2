"""An event log with its outbox, relayed as it is: written as its own writers do."""

from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.acceptance.adopting import SYSTEMS, Adopted, headers, insert, relayed
from tests.acceptance.conftest import Deploy
from tests.brokers.rabbitmq import RabbitmqQueue
from tests.servers.database import Database
from tests.servers.rabbitmq import RabbitmqServer


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
