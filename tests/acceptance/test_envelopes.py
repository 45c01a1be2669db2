"""Envelopes in the installed command: from rows to what consumers of each kind read in a real Kafka."""

import json
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, header
from tests.servers.database import Database
from tests.servers.topics import Kafka

ENVELOPES: dict[str, dict[str, Any]] = {
    "binary": {"kind": "cloudevents", "source": "/shop/{tenant_id|default:none}"},
    "structured": {
        "kind": "cloudevents",
        "mode": "structured",
        "source": "/shop",
        "attributes": {"time": "{created_at}"},
    },
    "masstransit": {"kind": "masstransit", "message_types": ["Acme.Shop.{type}, Acme"]},
    "spring": {"kind": "spring"},
}


@pytest.fixture
def enveloped(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    routes = [{"name": kind, "when": {"payload.as": kind}, "envelope": each} for kind, each in ENVELOPES.items()]
    return deploy(database, kafka, topic, routes=[*routes, {"name": "all-others"}], refusals={"policy": "dead_letter"})


def test_each_consumer_reads_the_form_that_it_knows(enveloped: Deployment) -> None:
    enveloped.start()
    written = [f'{{"n": 1.50, "as": "{kind}"}}' for kind in [*ENVELOPES, "raw"]]
    ids = enveloped.write(*written)
    enveloped.write('{"as": "masstransit"}')
    enveloped.catch_up()
    binary, structured, masstransit, spring, raw, last = enveloped.delivered()

    for message, id_ in ((binary, ids[0]), (structured, ids[1])):
        event = from_kafka(
            KafkaMessage({name: value or b"" for name, value in message.headers}, message.key, message.value or b""),
            JSONFormat(),
        )
        assert (event.get_id(), event.get_type(), event.get_subject()) == (id_, "Happened", "a")
        assert json.loads(written[0 if message is binary else 1]) == event.get_data()
        assert event.get_time() is not None
    assert (header(binary, "ce_source"), binary.value) == ("/shop/none", written[0].encode())
    body = json.loads(masstransit.value or b"")
    assert (body["messageId"], body["messageType"]) == (ids[2], ["urn:message:Acme.Shop:Happened"])
    assert written[2].encode() in (masstransit.value or b"")
    assert (header(spring, "event_id"), header(spring, "contentType")) == (ids[3], "application/json")
    assert (spring.value, raw.value) == (written[3].encode(), written[4].encode())
    assert {name for name, _ in raw.headers} == {"id", "type", "position"}
    assert json.loads(last.value or b"")["message"] == {"as": "masstransit"}

    assert json.loads(enveloped.command("audit", "--json"))["ok"]
    found = json.loads(enveloped.command("find", "--since", "1h", "--json"))["rows"]
    assert [len(each["copies"]) for each in found] == [1] * 6


def test_a_row_that_does_not_suit_is_a_dead_letter_that_says_why(enveloped: Deployment) -> None:
    enveloped.start()
    with enveloped.database.connect() as connection:
        connection.execute(
            "SELECT walrelay.emit('thing', 'a', E'a\\nb', '{\"as\": \"binary\"}'::jsonb),"
            " walrelay.emit('thing', 'a', 'Happened', '{\"as\": \"binary\"}'::jsonb)"
        )
    enveloped.catch_up()
    assert len(enveloped.delivered()) == 1
    said = enveloped.command("dlq", "list", "--json")
    assert "does not suit the envelope cloudevents: the type has characters that are no text" in said
