"""Events in CloudEvents' form, as the package of the CloudEvents project reads them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat

from walrelay.config.routes import RuleSettings
from walrelay.lsn import LSN
from walrelay.model import OutboxRecord
from walrelay.route.rules import RuleRouter

RECORD = OutboxRecord(
    LSN.parse("16/B374D848"),
    *(2, 1_789_000_123_999_000, "7", "Tenant", "é", "Acme.Events.TenantCreated", b'{"a": 1.50, "b": [null]}'),
    *(b'{"region": "eu"}', None, "acme", "2026-11-21 10:58:54.95+01"),
)


def read(mode: str, attributes: dict[str, str], payload: bytes | None = RECORD.payload) -> Any:
    envelope = {"kind": "cloudevents", "mode": mode, "source": "/shop/{tenant_id}", "attributes": attributes}
    rule = RuleSettings.model_validate({"name": "all", "envelope": envelope})
    assert rule.envelope is not None
    (made,) = RuleRouter([rule.enveloped(rule.envelope)], "events").route(RECORD._replace(payload=payload))
    headers = {name: value for name, value in made.headers if value is not None}
    return from_kafka(KafkaMessage(headers, made.key, made.value or b""), JSONFormat())


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_attributes_and_data(mode: str) -> None:
    found = read(mode, {"tenant": "{tenant_id}", "time": "{created_at}"})
    assert found.get_attributes() == {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop/acme",
        "type": "Acme.Events.TenantCreated",
        "subject": "é",
        "time": datetime(2026, 11, 21, 9, 58, 54, 950_000, UTC),
        "datacontenttype": "application/json",
        "tenant": "acme",
        "partitionkey": "é",  # of the package: the key of the message
    }
    assert found.get_data() == {"a": 1.5, "b": [None]}


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize(
    ("content", "payload", "data"),
    [
        ("application/xml", b'<a b="c"/>', '<a b="c"/>'),
        ("text/plain; charset=UTF-8", "é\n".encode(), "é\n"),
        ("application/avro", b"\0\xff", b"\0\xff"),
        ("application/vnd.acme+json", b" [1.0] ", [1.0]),
        ("application/json", b"null", None),
        ("application/json", None, None),
    ],
)
def test_data_of_other_content_types(mode: str, content: str, payload: bytes | None, data: object) -> None:
    assert read(mode, {"datacontenttype": content}, payload).get_data() == data
