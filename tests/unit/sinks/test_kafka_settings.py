"""Which librdkafka options may be given, and which walrelay keeps to itself."""

import pytest
from pydantic import ValidationError

from walrelay.config import parse
from walrelay.errors import SettingsError
from walrelay.sinks.kafka.settings import KafkaSettings


def settings(**options: object) -> KafkaSettings:
    return KafkaSettings.model_validate({"bootstrap_servers": "localhost:9092", "options": options})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acks", 1),
        ("enable.idempotence", False),
        ("enable.gapless.guarantee", False),
        ("message.timeout.ms", 30_000),
        ("delivery.timeout.ms", 30_000),
        ("retries", 3),
        ("max.in.flight.requests.per.connection", 6),
        ("queuing.strategy", "lifo"),
        ("delivery.report.only.error", True),
        ("default.topic.config", "acks=1"),
    ],
)
def test_an_option_that_would_break_the_guarantee_is_refused_with_its_reason(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=f"would break the guarantee: {name}: ."):
        settings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("linger.msx", 5, 'No such configuration property: "linger.msx"'),
        ("compression.type", "zzz", 'Invalid value "zzz" for configuration property "compression.codec"'),
        ("linger.ms", -5, "value -5 is outside allowed range"),
    ],
)
def test_an_option_that_the_client_library_does_not_know_is_told_before_a_start(
    name: str, value: object, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValidationError, match=f"{name}: librdkafka says: .*{why}"):
        settings(**{name: value})
    settings(
        **{"sasl.mechanism": "PLAIN", "ssl.ca.location": "/not/there"}
    )  # the environment's business, not the file's
    assert capfd.readouterr().err == ""


def test_the_order_is_kept_whatever_else_is_asked_for() -> None:
    options = settings(**{"linger.ms": 5, "compression.type": "zstd"}).client_options()
    assert options["enable.idempotence"] is True
    assert options["message.timeout.ms"] == 0, "a message that times out would leave a gap"
    assert options["allow.auto.create.topics"] is False
    assert options["linger.ms"] == 5


def test_a_queue_holds_more_than_the_largest_message() -> None:
    options = settings(**{"message.max.bytes": 100_000_000}).client_options()
    assert options["queue.buffering.max.kbytes"] * 1024 >= 100_000_000


@pytest.mark.parametrize(("section", "name"), [("route", "topic"), ("refusals", "dead_letter_topic")])
def test_no_topic_of_the_settings_may_be_that_of_the_positions(section: str, name: str) -> None:
    text = f"""
source: {{dsn: postgresql://localhost/shop}}
sink: {{kind: kafka, bootstrap_servers: localhost:9092, positions_topic: marks}}
{section}:
  {name}: marks
"""
    with pytest.raises(SettingsError) as caught:
        parse(text, "walrelay.yaml", {})
    assert str(caught.value) == (
        f"walrelay.yaml:5: {section}.{name}: 'marks' is where relays keep their positions (sink.positions_topic)"
    )
