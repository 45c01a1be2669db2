"""What SQS and SNS take, where fakes of them take more: texts, attributes, groups, ids of repetitions."""

from typing import Any

import pytest

from walrelay.model import REPLAYED, Message
from walrelay.sinks.aws.arns import name_of
from walrelay.sinks.aws.contract import AwsEntry
from walrelay.sinks.aws.sqs.api import SqsApi
from walrelay.sinks.aws.sqs.queues import lookup, queue_fault
from walrelay.sinks.aws.sqs.settings import SqsSettings
from walrelay.sinks.aws.texts import (
    MOST_ATTRIBUTES,
    FifoIds,
    Format,
    TextForm,
    TextMessage,
    batch_faults,
    group_of,
)
from walrelay.sinks.hosting import Misfit

Headers = list[tuple[str, bytes | None]]
KNOWN: Headers = [("id", b"7"), ("position", b"0/1:0")]


def message(value: bytes | None = b"x", key: bytes | None = b"k", **headers: bytes) -> Message:
    return Message("q.fifo", key, value, [*KNOWN, *headers.items()], 0)


def sqs(**settings: str) -> SqsApi:
    return SqsApi(SqsSettings.model_validate(settings))


def made(given: Message, form: Format = "text") -> TextMessage:
    found = TextForm(form, "key")(given)
    assert isinstance(found, TextMessage), found
    return found


def refused(given: Message, form: Format = "text") -> str:
    found = TextForm(form, "key")(given)
    assert isinstance(found, Misfit), found
    assert (found.error, bool(found.hint)) == ("serialization", True)
    return found.reason


@pytest.mark.parametrize("text", ["\t\n\r ~", "\x7f", "\x85", "\ud7ff", "\ue000", "\ufffd", "\U00010000", "\U0010ffff"])
def test_a_text_of_allowed_characters_is_the_body_as_it_is(text: str) -> None:
    assert made(message(text.encode())).text == text


@pytest.mark.parametrize("payload", [b"a\x00", b"\x01", b"\x0b", b"\x1f", "\ufffe".encode(), b"\xef\xbf\xbf", b"\xff"])
def test_a_payload_with_other_characters_is_refused_unless_it_is_encoded(payload: bytes) -> None:
    assert "AWS takes in no text" in refused(message(payload))
    assert made(message(payload), "base64").text.isascii()


@pytest.mark.parametrize("payload", [b"", None])
def test_no_text_is_empty(payload: bytes | None) -> None:
    assert refused(message(payload)) == refused(message(payload), "base64")
    assert made(message(payload), "document").text.startswith('{"topic":"q.fifo","key":"k","headers":{')


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a:b", "ü", ".a", "a.", "a..b", "a\n", "n" * 257, "AWS.x", "aws.x", "Amazon.x", "amazon.", "a/b"],
)
def test_names_that_no_attribute_can_have(name: str) -> None:
    assert "name" in refused(message(**{name: b"1"}))


@pytest.mark.parametrize("name", ["a", "Trace-ID", "a.b-c_d", "n" * 256, "awsx", "AmazonX"])
def test_names_that_an_attribute_can_have(name: str) -> None:
    assert made(message(**{name: b"1"})).attributes[name] == {"DataType": "String", "StringValue": "1"}


def test_values_of_headers_stay_as_they_are_or_are_refused() -> None:
    attributes = made(message(binary=b"\xff", control=b"a\0b", text="ü ".encode())).attributes
    assert attributes["binary"] == {"DataType": "Binary", "BinaryValue": b"\xff"}
    assert attributes["control"] == {"DataType": "Binary", "BinaryValue": b"a\0b"}
    assert attributes["text"] == {"DataType": "String", "StringValue": "ü "}
    assert "no attribute is empty" in refused(message(a=b""))
    nothing = message()._replace(headers=[("a", None)])
    twice = message()._replace(headers=[("a", b"1"), ("a", b"1")])
    assert "has no value" in refused(nothing)
    assert "twice" in refused(twice)
    assert "twice" in refused(message(key=b"k")._replace(headers=[("key", b"1")]))


def test_there_are_ten_attributes_at_most_and_a_document_has_any_number() -> None:
    free = MOST_ATTRIBUTES - len(KNOWN) - 1
    fits = {f"h{number}": b"1" for number in range(free)}
    assert len(made(message(**fits)).attributes) == MOST_ATTRIBUTES
    assert "10 attributes at most" in refused(message(**fits, more=b"1"))
    assert '"more":"1"' in made(message(**fits, more=b"1"), "document").text
    assert made(message(**fits, more=b"1"), "document").attributes == {}


def test_the_size_is_that_of_text_names_types_and_values() -> None:
    assert made(message("ü".encode())._replace(headers=[("ab", b"123")], key=None)).size == 2 + 2 + 6 + 3


def test_what_is_larger_than_sqs_takes_is_known_by_its_size() -> None:
    entry = sqs()
    fits, too_large = entry.entry(message(b"x" * 1_040_000)), entry.entry(message(b"x" * 1_048_570))
    assert isinstance(fits, AwsEntry)
    assert isinstance(too_large, AwsEntry)
    assert fits.size <= entry.limits.bytes < too_large.size


@pytest.mark.parametrize("key", [b"42", b"a-b_c.d/e:f", b"x" * 128, b"~!@#$%^&*()"])
def test_a_key_is_the_group(key: bytes) -> None:
    assert group_of(message(key=key)) == key.decode()


@pytest.mark.parametrize("key", [b"", b"a b", "ü".encode(), b"x" * 129, b"\xff", b"a\n"])
def test_a_key_that_is_no_group_is_hashed_and_stays_in_its_attribute(key: bytes) -> None:
    group = group_of(message(key=key))
    assert len(group) == 64
    assert group != group_of(message(key=key + b"1"))


def test_messages_without_a_key_are_the_group_of_their_topic() -> None:
    assert group_of(message(key=None)) == "q.fifo"
    assert len(group_of(message(key=None)._replace(topic="\udcff ü"))) == 64


def repetition(ids: FifoIds, given: Message, place: str = "q.fifo") -> str:
    return ids(given, place, made(given))["MessageDeduplicationId"]


def test_a_repetition_has_the_id_of_the_first_and_nothing_else_has_it() -> None:
    first = repetition(FifoIds(), message())
    ids = FifoIds()
    assert repetition(ids, message()) == first
    assert first.startswith("7.")
    others = [
        repetition(ids, message()),  # the record's second one that is alike
        repetition(ids, message(b"y")),
        repetition(ids, message(more=b"1")),
        repetition(ids, message(), "other.fifo"),
        repetition(ids, message(key=b"l")),
        repetition(ids, message()._replace(headers=[("id", b"7"), ("position", b"0/2:0")])),
        repetition(ids, message(replayed=REPLAYED[1])),
        repetition(ids, message(replayed=REPLAYED[1])),
    ]
    assert len({first, *others}) == 9


@pytest.mark.parametrize("id_", [b"x" * 81, "ü".encode(), b"a b", b"\xff"])
def test_an_event_id_that_is_none_for_aws_is_left_out_of_the_repetitions(id_: bytes) -> None:
    found = repetition(FifoIds(), message()._replace(headers=[("id", id_)]))
    assert len(found) == 32
    assert len(repetition(FifoIds(), message()._replace(headers=[("id", b"x" * 80)]))) <= 128


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders.fifo", "orders.fifo"),
        ("arn:aws:sqs:eu-west-1:123456789012:orders.fifo", "orders.fifo"),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo", "orders.fifo"),
        ("x" * 80, "x" * 80),
    ],
)
def test_names_arns_and_urls_lead_to_queues(text: str, name: str) -> None:
    assert queue_fault(text) == ""
    assert name_of(text) == name


@pytest.mark.parametrize(
    "text", ["", "a b", "outbox.event.order", "x" * 81, "x" * 76 + ".fifo", "a/b", "arn:aws:sqs:x"]
)
def test_other_texts_lead_to_no_queue(text: str) -> None:
    assert queue_fault(text)
    found = sqs(queue="{topic}").entry(message()._replace(topic=text))
    assert isinstance(found, Misfit)
    assert found.error == "invalid_topic"


def test_a_queue_of_another_account_is_looked_up_there() -> None:
    found = lookup("arn:aws:sqs:eu-west-1:123456789012:orders.fifo")
    assert found == {"QueueName": "orders.fifo", "QueueOwnerAWSAccountId": "123456789012"}
    assert sqs(queue="arn:aws:sqs:eu-west-1:123456789012:{topic}").region == "eu-west-1"
    assert sqs().region is None


def test_a_queue_that_keeps_no_order_is_refused_unless_that_is_allowed() -> None:
    ordered, unordered = sqs(), sqs(ordering="none")
    for api, topic in ((ordered, "orders"), (unordered, "orders.fifo")):
        found = api.entry(message()._replace(topic=topic))
        assert isinstance(found, Misfit)
        assert "sink.ordering" in found.reason
    entry = unordered.entry(message()._replace(topic="orders"))
    assert isinstance(entry, AwsEntry)
    assert "MessageGroupId" not in entry.fields


def test_topics_that_share_a_queue_share_its_groups() -> None:
    shared = sqs(queue="all.fifo")
    assert shared.lane(message()._replace(topic="a")) == shared.lane(message()._replace(topic="b"))
    by_row = sqs(queue="{header.queue}")
    assert by_row.lane(message()) == ("q.fifo", b"k"), "it is told why later"


def test_an_entry_that_an_answer_does_not_name_was_not_taken() -> None:
    answer: dict[str, Any] = {
        "Successful": [{"Id": "0"}],
        "Failed": [{"Id": "2", "Code": "InternalError", "SenderFault": False}],
    }
    taken, missing, failed = batch_faults(answer, 3)
    assert taken is None
    assert missing is not None
    assert missing.code == "NoAnswer"
    assert failed is not None
    assert (failed.code, failed.senders) == ("InternalError", False)
