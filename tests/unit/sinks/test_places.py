"""Where the messages of one topic go: a template in the settings leads them to several places."""

from pathlib import Path
from typing import Any

import pytest

import walrelay.sinks
from walrelay.model import Message, Offered
from walrelay.publish import SinkHandle, SinkHandles, load
from walrelay.publish.plugins import entry_points_by_kind

TENANT = "{header.tenant}"
SETTINGS: dict[str, dict[str, Any]] = {
    "eventbridge": {"bus": TENANT},
    "kinesis": {"stream": TENANT},
    "nats": {"url": "nats://localhost", "subject": TENANT},
    "postgres": {"dsn": "", "table": f"events_{TENANT}"},
    "pubsub": {"project": "shop-project", "topic": TENANT},
    "pulsar": {"url": "pulsar://localhost:6650", "topic": f"persistent://{TENANT}/shop/t"},
    "rabbitmq": {"url": "amqp://localhost", "exchange": "", "routing_key": TENANT},
    "redis": {"url": "redis://localhost", "stream": TENANT},
    "servicebus": {"namespace": "shop.servicebus.windows.net", "entity": TENANT},
    "sns": {"topic_arn": f"arn:aws:sns:eu-west-1:123456789012:{TENANT}.fifo"},
    "sqs": {"queue": f"{TENANT}.fifo"},
    "webhook": {"url": f"https://hooks.example.com/{TENANT}"},
}


def handle(kind: str) -> SinkHandle:
    plugin = load(kind)
    return SinkHandle(kind, plugin.settings.model_validate(SETTINGS.get(kind, {})), plugin)


def message(tenant: str | None, topic: str = "t") -> Message:
    return Offered(topic, b"k", b"", [] if tenant is None else [("tenant", tenant.encode())], 0)


@pytest.mark.parametrize("kind", SETTINGS)
def test_messages_of_one_topic_have_the_places_of_their_tenants(kind: str) -> None:
    place = handle(kind).place
    assert place(message("a")) != place(message("b"))
    assert place(message("a", "t")) == place(message("a", "u"))
    assert place(message(None)) is None


def test_every_sink_with_a_template_says_its_places() -> None:
    sinks = Path(walrelay.sinks.__file__).parent
    using = {path.parent for path in sinks.rglob("*.py") if "AddressTemplate(" in path.read_text()} - {sinks}
    kinds = {point.value.partition(":")[0].removesuffix(".plugin") for point in entry_points_by_kind().values()}
    packages = {f"walrelay.sinks.{'.'.join(each.relative_to(sinks).parts)}" for each in using}
    named = {load(kind).settings.__module__.rpartition(".")[0] for kind in SETTINGS}
    assert (packages & kinds) - named == set()


def test_without_a_template_the_topic_is_the_place() -> None:
    assert handle("memory").place(message("a")) == "t"


def test_of_several_sinks_the_place_has_the_name_of_its_sink() -> None:
    handles = SinkHandles({"eu": handle("sqs"), "us": handle("sqs"), "own": handle("memory")})
    assert handles.place(message("a", "eu:t")) == "eu:a.fifo"
    assert handles.place(message("a", "us:t")) == "us:a.fifo"
    assert handles.place(message("a", "own:t")) == "own:t"
    assert handles.place(message("a", "gone:t")) is None
