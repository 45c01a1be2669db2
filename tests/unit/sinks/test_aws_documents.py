"""What Kinesis and EventBridge get of a message: one JSON object, or the payload alone where nothing is lost by it."""

import json
from typing import Any

import pytest

from walrelay.model import Message
from walrelay.sinks.aws.contract import AwsEntry
from walrelay.sinks.aws.document import alone, document, is_object
from walrelay.sinks.aws.eventbridge.api import EventbridgeApi, bus_fault
from walrelay.sinks.aws.eventbridge.settings import EventbridgeSettings
from walrelay.sinks.aws.kinesis.api import KinesisApi, named, partition_key, stream_fault
from walrelay.sinks.aws.kinesis.settings import KinesisSettings
from walrelay.sinks.aws.sns.api import SnsApi, sns_fault
from walrelay.sinks.aws.sns.settings import SnsSettings
from walrelay.sinks.hosting import Misfit

TYPE = ("type", b"OrderPlaced")


def message(value: bytes | None = b'{"a": 1.10}', key: bytes | None = b"k", *more: tuple[str, bytes | None]) -> Message:
    return Message("orders", key, value, [("id", b"7"), ("position", b"0/1:0"), *more], 1_700_000_000_123)


def text(given: Message) -> str:
    made = document(given)
    assert isinstance(made, str), made
    return made


def kinesis(given: Message, **settings: Any) -> AwsEntry | Misfit:
    return KinesisApi(KinesisSettings.model_validate(settings)).entry(given)


def eventbridge(given: Message, **settings: Any) -> AwsEntry | Misfit:
    return EventbridgeApi(EventbridgeSettings.model_validate(settings)).entry(given)


def entry(found: AwsEntry | Misfit) -> AwsEntry:
    assert isinstance(found, AwsEntry), found
    return found


def misfit(found: AwsEntry | Misfit) -> Misfit:
    assert isinstance(found, Misfit), found
    assert found.hint
    return found


def test_a_payload_of_json_stays_as_it_was_written() -> None:
    assert text(message()) == '{"topic":"orders","key":"k","headers":{"id":"7","position":"0/1:0"},"value":{"a": 1.10}}'


@pytest.mark.parametrize("payload", [b"no json", b"", b"\xff", b"NaN", b"{", b"1 2", b'{"a": NaN}', b"[Infinity]"])
def test_a_payload_that_is_no_json_is_there_in_base64(payload: bytes) -> None:
    read = json.loads(text(message(payload)))
    assert "value" not in read
    assert read["value_base64"] is not None


def test_what_is_null_is_left_out_and_differs_from_what_is_empty() -> None:
    nothing, empty = (json.loads(text(message(value, key))) for value, key in ((None, None), (b"null", b"")))
    assert {"key", "value", "value_base64"} & {*nothing} == set()
    assert (empty["key"], empty["value"]) == ("", None)
    assert json.loads(text(message(b"1", b"\xff")))["key_base64"] == "/w=="


def test_headers_of_any_bytes_are_there_and_a_name_that_comes_twice_is_refused() -> None:
    odd: list[tuple[str, bytes | None]] = [("a", None), ("", b""), ("b", b"\xff"), ('c\r\n"', "ü\0".encode())]
    read = json.loads(text(message(b"1", b"k", *odd)))["headers"]
    assert read == {"id": "7", "position": "0/1:0", "a": None, "": "", "b": {"base64": "/w=="}, 'c\r\n"': "ü\0"}
    twice, unreadable = document(message(b"1", b"k", ("id", b"8"))), document(message(b"1", b"k", ("\udcff", b"")))
    assert isinstance(twice, Misfit)
    assert isinstance(unreadable, Misfit)


def test_a_payload_goes_alone_only_if_no_header_of_the_row_is_lost() -> None:
    assert alone(message(b"x", b"k", TYPE, ("content-type", b"a/b"), ("ce_type", b"x"))) == b"x"
    lost = alone(message(b"x", b"k", ("trace", b"1")))
    assert isinstance(lost, Misfit)
    assert "'trace' would be lost" in lost.reason
    assert isinstance(alone(message(None)), Misfit)


@pytest.mark.parametrize(("given", "whether"), [("{}", True), (' {"a": 1} ', True), ("[]", False), ("{", False)])
def test_objects_of_json(given: str, whether: bool) -> None:
    assert is_object(given) == whether
    assert not is_object('{"a": NaN}')
    assert not is_object('{"a":' * 100_000)


@pytest.mark.parametrize(("key", "partition"), [(b"42", "42"), ("ü".encode(), "ü"), (b"x" * 256, "x" * 256)])
def test_a_key_is_the_partition_key(key: bytes, partition: str) -> None:
    assert partition_key(message(key=key)) == partition


@pytest.mark.parametrize("key", [b"", b"x" * 257, b"\xff"])
def test_a_key_that_is_no_partition_key_is_hashed_where_the_document_has_it(key: bytes) -> None:
    assert len(partition_key(message(key=key))) == 64
    assert entry(kinesis(message(key=key))).fields["PartitionKey"] == partition_key(message(key=key))
    assert "partition key" in misfit(kinesis(message(key=key), format="value")).reason


def test_a_record_of_kinesis_has_its_size_with_its_key() -> None:
    made = entry(kinesis(message(b"x" * 100, b"key"), format="value"))
    assert made == ("orders", {"Data": b"x" * 100, "PartitionKey": "key"}, 103)
    assert partition_key(message(key=None)) == "orders"


@pytest.mark.parametrize("text", ["", "a b", "x" * 129, "a:b", "arn:aws:kinesis:eu-west-1:123456789012:stream/a b"])
def test_texts_that_are_no_stream(text: str) -> None:
    assert stream_fault(text)
    assert misfit(kinesis(message()._replace(topic=text))).error == "invalid_topic"


def test_a_stream_is_named_by_name_or_arn() -> None:
    arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
    assert (stream_fault(arn), named(arn)) == ("", {"StreamARN": arn})
    assert named("orders") == {"StreamName": "orders"}
    assert KinesisApi(KinesisSettings.model_validate({"stream": arn})).region == "eu-west-1"
    shared = KinesisApi(KinesisSettings.model_validate({"stream": "all"}))
    assert shared.lane(message()) == shared.lane(message()._replace(topic="others"))


def test_strict_is_one_record_a_request() -> None:
    assert KinesisApi(KinesisSettings.model_validate({"ordering": "strict"})).limits.entries == 1


def test_an_event_has_bus_source_type_and_the_time_of_the_commit() -> None:
    made = entry(eventbridge(message(b"{}", b"k", TYPE), bus="shop"))
    assert made.place == "shop"
    assert (made.fields["Source"], made.fields["DetailType"]) == ("orders", "OrderPlaced")
    assert made.fields["Time"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert json.loads(made.fields["Detail"])["value"] == {}
    assert misfit(eventbridge(message())).error == "unroutable"


@pytest.mark.parametrize(
    "names",
    [
        {"source": "aws.s3", "detail_type": "x"},
        {"source": "x" * 257, "detail_type": "x"},
        {"source": "", "detail_type": "x"},
        {"source": "x", "detail_type": "x" * 129},
        {"source": "x", "detail_type": ""},
        {"bus": "a b", "detail_type": "x"},
        {"bus": "", "detail_type": "x"},
    ],
)
def test_names_that_no_event_can_have(names: dict[str, str]) -> None:
    assert misfit(eventbridge(message(), **names)).error == "invalid_topic"


def test_a_detail_of_a_payload_alone_is_an_object() -> None:
    settings = {"detail_type": "x", "format": "value"}
    assert entry(eventbridge(message(b'{"a": 1.10}'), **settings)).fields["Detail"] == '{"a": 1.10}'
    for payload in (b"[]", b"\xff", b"x", b'{"a": NaN}'):
        assert "no JSON object" in misfit(eventbridge(message(payload), **settings)).reason


def test_buses_are_named_by_name_or_arn() -> None:
    assert bus_fault("default") == bus_fault("arn:aws:events:eu-west-1:123456789012:event-bus/shop") == ""
    assert bus_fault("arn:aws:events:x")


def test_topics_of_sns_are_arns() -> None:
    arn = "arn:aws:sns:eu-west-1:123456789012:orders.fifo"
    api = SnsApi(SnsSettings.model_validate({"topic_arn": "arn:aws:sns:eu-west-1:123456789012:{topic}.fifo"}))
    made = entry(api.entry(message()))
    assert (made.place, made.fields["MessageGroupId"], api.region) == (arn, "k", "eu-west-1")
    assert sns_fault(arn) == sns_fault("arn:aws-cn:sns:cn-north-1:123456789012:orders") == ""
    assert sns_fault("orders.fifo")
    assert sns_fault("arn:aws:sns:eu-west-1:123456789012:a.b")
    assert misfit(api.entry(message()._replace(topic="outbox.event.order"))).error == "invalid_topic"
    unordered = SnsApi(SnsSettings.model_validate({"topic_arn": arn, "ordering": "none"}))
    assert "sink.ordering" in misfit(unordered.entry(message())).reason
