"""Addresses made of templates: what a message lacks is said, and never left out."""

import pytest
from pydantic import ValidationError

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress, url_parts
from walrelay.sinks.making import init_topics, making
from walrelay.sinks.nats.settings import NatsSettings
from walrelay.sinks.rabbitmq.settings import RabbitmqSettings
from walrelay.sinks.redis.settings import RedisSettings

MESSAGE = Message("orders", b"42", b"{}", [("type", b"OrderPlaced"), ("odd", b"\xff"), ("none", None)], 0)


@pytest.mark.parametrize(
    ("template", "address"),
    [
        ("{topic}", "orders"),
        ("events", "events"),
        ("", ""),
        ("eu.{topic}.{header.type}.{key}", "eu.orders.OrderPlaced.42"),
        ("{{x}}{topic}", "{x}orders"),
    ],
)
def test_a_template_is_filled_with_what_the_message_has(template: str, address: str) -> None:
    assert AddressTemplate(template)(MESSAGE) == address


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("a.{header.region}", "the address has {header.region}, and the message has none"),
        ("a.{header.none}", "the address has {header.none}, and the message has none"),
        ("a.{header.odd}", "the address has {header.odd}, and the message's is not UTF-8"),
    ],
)
def test_a_message_without_what_is_asked_for_has_no_address(template: str, why: str) -> None:
    with pytest.raises(NoAddress, match=why.replace("{", r"\{")):
        AddressTemplate(template)(MESSAGE)


@pytest.mark.parametrize("template", ["{}", "{x}", "{header.}", "{topic!r}", "{topic:5}", "{topic", "topic}"])
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="no template of an address"):
        AddressTemplate(template)


def test_the_address_of_a_topic_is_known_unless_a_row_says_it() -> None:
    assert AddressTemplate("eu.{topic}").of_topic("a") == "eu.a"
    assert AddressTemplate("eu.{topic}").of_topics(["a", "b-*", "c"]) == {"eu.a": "a", "eu.c": "c"}
    assert AddressTemplate("one").of_topics(["a", "b"]) == {"one": "a"}
    assert AddressTemplate("{key}").of_topics(["a"]) == {}
    assert not AddressTemplate("eu.{topic}").by_row
    assert AddressTemplate("eu.{key}").by_row


@pytest.mark.parametrize(
    "url",
    ["amqp://relay:se/cret@host/", "amqp://relay:se#cret@host", "amqp://relay:12?34@host", "amqp://relay:se[cret@host"],
)
def test_a_password_that_is_not_encoded_is_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="Percent-encode") as told:
        url_parts(url)
    assert "se" not in str(told.value).replace("Percent-encode", "").replace("else", "")
    for model, scheme in ((RabbitmqSettings, "amqp"), (NatsSettings, "nats"), (RedisSettings, "redis")):
        with pytest.raises(ValidationError, match="Percent-encode"):
            model.model_validate({"url": url.replace("amqp", scheme)})


@pytest.mark.parametrize(
    ("topic", "command"),
    [
        ("orders", "walrelay init --topics orders"),
        ("outbox.event.*", "walrelay init --topics 'outbox.event.*'"),
        ("a b'c", """walrelay init --topics 'a b'"'"'c'"""),
        ("a,b", ""),
        ("a\nb", ""),
    ],
)
def test_the_command_that_makes_a_topic_can_be_pasted(topic: str, command: str) -> None:
    assert init_topics(topic) == command
    assert making(topic, "make it").endswith("ake it" if command else "Make it.")
