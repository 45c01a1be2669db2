"""The outbox of a Spring Cloud Stream service, relayed as it is: written as its own writers do."""

import json
from datetime import UTC, datetime
from uuid import uuid4

from tests.acceptance.adopting import Adopted, headers, insert, relayed


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
