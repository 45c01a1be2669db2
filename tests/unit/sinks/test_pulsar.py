"""What fits into Pulsar and where it goes, without Pulsar."""

import threading
from typing import Any

import pytest
from pydantic import ValidationError

from walrelay.model import Message
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.pulsar.mailbox import Mailbox
from walrelay.sinks.pulsar.messages import ForPulsar, ToPulsar, partition
from walrelay.sinks.pulsar.settings import PulsarSettings
from walrelay.sinks.pulsar.topics import address_fault, topic_fault

MESSAGE = Message("orders", b"o-1", b"{}", [("id", b"e-1"), ("tenant-id", b"acme")], 1_700_000_000_000)


def settings(**given: Any) -> PulsarSettings:
    return PulsarSettings.model_validate({"url": "pulsar://localhost:6650", **given})


def converted(message: Message, **given: Any) -> ForPulsar | Misfit:
    return ToPulsar(settings(**given))(message)


def misfit(message: Message, **given: Any) -> Misfit:
    found = converted(message, **given)
    assert isinstance(found, Misfit), found
    return found


def test_tenant_and_namespace_are_parts_of_the_template() -> None:
    found = converted(MESSAGE, topic="persistent://{header.tenant-id}/shop/{topic}", ordering_key="{header.id}")
    properties = {"id": "e-1", "tenant-id": "acme"}
    topic = "persistent://acme/shop/orders"
    assert found == ForPulsar(topic, "o-1", "e-1", properties, b"{}", 1_700_000_000_000)


_WORDS = "tenants and namespaces have ASCII letters, digits, '-', '_', '=', ':' and '.'"


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("orders", "it does not begin with persistent://"),
        ("non-persistent://public/default/orders", "it does not begin with persistent://"),
        ("persistent://public/orders", "it has not tenant, namespace and name: persistent://TENANT/NAMESPACE/NAME"),
        ("persistent://public/default/a/b", "it has not tenant, namespace and name: persistent://TENANT/NAMESPACE/NAME"),
        ("persistent://pub lic/default/a", _WORDS),
        ("persistent:///default/a", _WORDS),
        ("persistent://pulsar/system/a", "the tenant 'pulsar' is Pulsar's own"),
        ("persistent://public/default/", "its name is empty"),
        ("persistent://public/default/a\nb", "its name has no slashes and no control characters"),
        ("persistent://public/default/\udcff", "its name is not UTF-8"),
        ("persistent://public/default/__change_events", "names that begin with '__' are Pulsar's own"),
        ("persistent://public/default/a-partition-3", "a name that ends so is a partition of another topic"),
        ("persistent://public/default/ü ☃ %2F?#", ""),
    ],
)  # fmt: skip
def test_what_is_no_topic_is_refused_with_the_reason(topic: str, fault: str) -> None:
    assert address_fault(topic) == fault
    found = converted(MESSAGE._replace(topic=topic), topic="{topic}")
    assert (found.error if isinstance(found, Misfit) else "") == ("invalid_topic" if fault else "")


def test_a_topic_of_the_settings_may_be_a_name_or_a_whole_name() -> None:
    assert topic_fault("orders") == topic_fault("persistent://acme/shop/orders") == ""
    assert topic_fault("acme/__change_events") != ""
    assert topic_fault("non-persistent://acme/shop/orders") != ""


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (("a", None), "the header 'a' has no value, and Pulsar has no such properties"),
        (("id", b"2"), "the header 'id' is there twice, and Pulsar keeps one"),
        (("a", b"\xff"), "the header 'a' is not UTF-8, and Pulsar's properties are text"),
        (("\udcff", b"1"), "the name of the header '\\udcff' is not UTF-8"),
        (("RECONSUMETIMES", b"1"), "consumers' libraries would obey the header 'RECONSUMETIMES'"),
    ],
)
def test_a_header_that_would_be_altered_forgotten_or_obeyed_is_refused(
    header: tuple[str, bytes | None], reason: str
) -> None:
    found = misfit(MESSAGE._replace(headers=[*MESSAGE.headers, header]))
    assert (found.reason, found.error) == (reason, "serialization")


def test_headers_without_a_value_are_left_out_if_that_is_asked_for() -> None:
    found = converted(MESSAGE._replace(headers=[*MESSAGE.headers, ("a", None)]), null_headers="omit")
    assert isinstance(found, ForPulsar)
    assert found.properties == {"id": "e-1", "tenant-id": "acme"}


def test_a_key_that_is_no_text_is_refused_and_none_is_none() -> None:
    assert misfit(MESSAGE._replace(key=b"\xff")).reason == "the key is not UTF-8, and Pulsar's keys are text"
    found = converted(MESSAGE._replace(key=None, value=None))
    assert isinstance(found, ForPulsar)
    assert (found.key, found.payload) == (None, None)


def test_a_message_without_what_the_template_asks_for_goes_nowhere_else() -> None:
    assert misfit(MESSAGE, topic="persistent://{header.none}/a/{topic}").error == "unroutable"
    assert misfit(MESSAGE._replace(key=None), ordering_key="{key}").error == "unroutable"


def test_headers_count_for_the_size() -> None:
    most = settings().max_message_size
    assert isinstance(converted(MESSAGE._replace(value=b"x" * (most - 400))), ForPulsar)
    assert misfit(MESSAGE._replace(value=b"x" * (most - 200))).error == "too_large"
    long: list[tuple[str, bytes | None]] = [("a", b"x" * 300)]
    assert misfit(MESSAGE._replace(value=b"x" * (most - 400), headers=long)).error == "too_large"


def test_partitions_are_those_of_javas_client() -> None:
    """`"o-1".hashCode() & Integer.MAX_VALUE`, modulo the partitions."""
    hashes = {"": 0, "o-1": 108115, "hello": 99162322, "ü☃": 17543, "😀": 1772899, "order-4711-x": 2049359981}
    assert {key: partition(key, 2**31) for key in hashes} == hashes
    assert partition("o-1", 3) == 108115 % 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "http://localhost"}, "begins with pulsar://"),
        ({"url": "pulsar://me:secret@localhost:6650"}, "no password"),
        ({"topic": "non-persistent://a/b/{topic}"}, "begins with persistent://"),
        ({"topic": "persistent://a/b/{unknown}"}, "is unknown"),
        ({"token": "x", "token_file": "/run/token"}, "exclude each other"),
        ({"username": "x"}, "belong together"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(**given)


def test_what_threads_say_is_taken_in_their_order_and_wakes_once() -> None:
    mailbox = Mailbox("ok")
    mailbox.wait(0)
    speaking = threading.Thread(target=lambda: [mailbox.callback(number)("ok", None) for number in range(1_000)])
    speaking.start()
    mailbox.wait(10)
    speaking.join()
    taken = mailbox.take()
    assert taken == [(number, "ok") for number in range(1_000)]
    assert mailbox.take() == []
    assert not mailbox.complained
    mailbox.callback(7)("broken", None)
    assert mailbox.complained
    assert mailbox.take() == [(7, "broken")]
    assert not mailbox.complained
