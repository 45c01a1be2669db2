"""What `walrelay report` tells of settings: everything but what is secret, whatever the sink."""

import json
from typing import Any

import pytest
import yaml

from walrelay.config import parse
from walrelay.config.redaction import redacted, scrubbed, secrets
from walrelay.publish import installed
from walrelay.publish.plugins import load

MARK = "Kanarienvogel"
SIGNING = "whsec_" + "S2FuYXJpZW52b2dlbEthbmFyaWVudm9nZWw="
SINKS: dict[str, dict[str, Any]] = {
    "kafka": {
        "bootstrap_servers": "kafka-1:9092",
        "options": {"sasl.password": MARK, "sasl.username": MARK, "sasl.mechanism": "PLAIN", "linger.ms": 3},
    },
    "rabbitmq": {"url": f"amqps://relay:{MARK}@rabbit-1/orders,amqps://relay:{MARK}@rabbit-2/orders"},
    "nats": {"url": f"tls://{MARK}@nats-1:4222", "stream": "events"},
    "redis": {"url": f"rediss://relay:{MARK}@redis-1:6379/0", "sentinels": f"redis://:{MARK}@redis-2:26379"},
    "postgres": {"dsn": f"postgresql://relay:{MARK}@other-1/warehouse"},
    "webhook": {
        "url": f"https://hooks.example/in?token={MARK}",
        "signing_secrets": [SIGNING],
        "bearer_token": MARK,
        "headers": {"x-api-key": MARK},
    },
    "servicebus": {
        "connection_string": "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=relay;"
        f"SharedAccessKey={MARK}",
    },
    "pulsar": {"url": "pulsar+ssl://pulsar-1:6651", "token": MARK, "topic": "persistent://shop/events/{topic}"},
    "sqs": {"region": "eu-central-1", "access_key_id": "AKIA1", "secret_access_key": MARK, "session_token": MARK},
}


def settings(kind: str) -> Any:
    sections = {
        "source": {"dsn": f"postgresql://relay:{MARK}@db-1/shop", "slot": "walrelay"},
        "sink": {"kind": kind, **SINKS[kind]},
    }
    return parse(yaml.safe_dump(sections), "walrelay.yaml", {})


@pytest.mark.parametrize("kind", SINKS)
def test_secrets_of_a_sink_are_left_out_and_all_else_is_there(kind: str) -> None:
    shown = json.dumps(redacted(settings(kind)))
    assert MARK not in shown
    assert SIGNING not in shown
    assert "db-1" in shown
    assert kind in shown


def test_each_sink_that_may_have_a_secret_is_here() -> None:
    alike = {"sns", "eventbridge", "kinesis"}  # as sqs
    with_secrets = {
        kind
        for kind in installed()
        if any("SecretStr" in str(field.annotation) for field in load(kind).settings.model_fields.values())
    }
    assert with_secrets - alike == {*SINKS}


def test_what_helps_is_not_hidden() -> None:
    shown = redacted(settings("kafka"))
    assert shown["sink"]["settings"]["options"] == {
        "sasl.password": "***",
        "sasl.username": "***",
        "sasl.mechanism": "PLAIN",
        "linger.ms": 3,
    }


@pytest.mark.parametrize("kind", SINKS)
def test_a_text_that_repeats_a_secret_is_scrubbed(kind: str) -> None:
    known = secrets(settings(kind))
    text = f'{{"error": "no: {MARK}, {SIGNING}", "where": "amqp://relay:{MARK}@rabbit-1"}}'
    left = scrubbed(text, known | {SIGNING})
    assert MARK not in left
    assert json.loads(left)["where"].endswith("@rabbit-1")


def test_short_secrets_and_names_of_options_do_not_spoil_a_text() -> None:

    known = secrets(settings("kafka"))
    assert "PLAIN" not in known
    assert scrubbed("sasl.mechanism PLAIN, kafka-1:9092", known) == "sasl.mechanism PLAIN, kafka-1:9092"
