"""Addresses made of templates: what a message lacks is said, and never left out."""

import pytest

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress

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
    assert not AddressTemplate("eu.{topic}").by_row
    assert AddressTemplate("eu.{key}").by_row
