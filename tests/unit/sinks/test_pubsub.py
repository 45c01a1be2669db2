"""Pub/Sub, as far as it needs no server: what fits, what a status means, what the settings refuse."""

from typing import Any

import pytest

from walrelay.model import Message
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.pubsub.answers import meaning
from walrelay.sinks.pubsub.messages import PubsubConversion
from walrelay.sinks.pubsub.names import full_name, id_fault, letters_fault
from walrelay.sinks.pubsub.plugin import plugin
from walrelay.sinks.pubsub.settings import PubsubPlace, PubsubSettings

Headers = list[tuple[str, bytes | None]]


def settings_of(**settings: Any) -> PubsubSettings:
    return PubsubSettings.model_validate(settings)


def converted(
    *headers: tuple[str, bytes | None], key: bytes | None = b"a", value: bytes | None = b"1", **settings: Any
) -> Any:
    convert = PubsubConversion(settings_of(project="p", **settings))
    return convert(Message("orders", key, value, [*headers], 0))


def fits(*headers: tuple[str, bytes | None], **others: Any) -> bool:
    return not isinstance(converted(*headers, **others), Misfit)


def test_a_message_has_its_topic_data_attributes_and_ordering_key() -> None:
    made = converted(("id", b"1"), ("ü", "☃".encode()), ("empty", b""), key=b"k", key_header="key")
    assert made.topic == "projects/p/topics/orders"
    assert (made.message.data, made.message.ordering_key) == (b"1", "k")
    assert dict(made.message.attributes) == {"id": "1", "ü": "☃", "empty": "", "key": "k"}
    assert converted(("id", b"1"), key=None).message.ordering_key == ""
    assert converted(("id", b"1"), value=None).message.data == b""


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("", b"1")], "a header has no name"),
        ([("a", None)], "the header 'a' has no value, and Pub/Sub has no such attributes"),
        ([("a", b"\xff")], "the header 'a' is not UTF-8, and attributes are text"),
        ([("\udcff", b"1")], r"the name of the header '\udcff' is not UTF-8"),
        ([("a", b"1"), ("a", b"1")], "the header 'a' is there twice, and Pub/Sub keeps one"),
        ([("googclient_x", b"1")], "the header 'googclient_x' begins with 'goog', as Google's own do"),
        ([("a", b"x" * 1_025)], "the header 'a' has 1,025 bytes, and Pub/Sub takes 1,024"),
        ([("ü" * 129, b"1")], f"the name of the header '{'ü' * 40}...' has 258 bytes, and Pub/Sub takes 256"),
        ([(f"{n}", b"1") for n in range(101)], "it has 101 headers, and Pub/Sub takes 100 attributes"),
    ],
)
def test_headers_that_are_no_attributes_are_refused(headers: Headers, reason: str) -> None:
    misfit = converted(*headers)
    assert isinstance(misfit, Misfit)
    assert (misfit.reason, misfit.error) == (reason, "serialization")


def test_the_largest_that_fits() -> None:
    assert fits(("a", b"x" * 1_024), ("x" * 256, b"1"))
    assert fits(*((f"{n}", b"1") for n in range(100)))
    assert fits(("id", b"1"), value=b"x" * 9_999_000)
    too_large = converted(("id", b"1"), value=b"x" * 10_000_000)
    assert too_large.error == "too_large"
    assert (
        too_large.reason == "payload, headers and key have 10,000,017 bytes, and Pub/Sub takes 10,000,000 in a request"
    )


@pytest.mark.parametrize(("key", "fit"), [(b"", False), (b"\xff", False), (b"k" * 1_025, False), (b"k" * 1_024, True)])
def test_a_key_is_text_of_a_kilobyte_at_most(key: bytes, fit: bool) -> None:
    assert fits(("id", b"1"), key=key) == fit


def test_a_message_with_nothing_in_it_is_refused() -> None:
    assert not fits(value=b"")
    assert not fits(value=None)
    assert fits(value=b"1")


def test_the_key_s_attribute_does_not_hide_a_header() -> None:
    assert not fits(("key", b"1"), key_header="key")


@pytest.mark.parametrize("text", ["abc", "Orders.v1", "a-b_c.d~e+f%g", "a" * 255])
def test_what_is_an_id_of_a_topic(text: str) -> None:
    assert (id_fault(text), letters_fault(text)) == ("", "")


@pytest.mark.parametrize("text", ["", "ab", "1bc", "a b", "a/b", "ä" * 3, "googol", "a" * 256, "abc\n"])
def test_what_is_none(text: str) -> None:
    assert id_fault(text)


def test_the_project_comes_from_the_settings() -> None:
    assert full_name("{topic}", "p", "abc") == "projects/p/topics/abc"
    assert full_name("projects/q/topics/{topic}", "p", "projects/q/topics/abc") == "projects/q/topics/abc"
    for template, address in (
        ("{topic}", "projects/q/topics/abc"),
        ("projects/q/topics/{topic}", "projects/q/topics/a/b"),
    ):
        with pytest.raises(ValueError):
            full_name(template, "p", address)


def test_every_status_has_a_meaning() -> None:
    assert meaning("UNAVAILABLE", "").speaks_for_all
    assert meaning("RESOURCE_EXHAUSTED", "Quota exceeded").verdict == "wait"
    assert meaning("RESOURCE_EXHAUSTED", "grpc: received message larger than max (5 vs. 4)").error == "too_large"
    assert meaning("INVALID_ARGUMENT", "Request payload size exceeds the limit: 10485760 bytes.").error == "too_large"
    assert meaning("INVALID_ARGUMENT", "no").verdict == "refused"
    assert meaning("SOMETHING_NEW", "").verdict == "over"


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        ("europe-west1-pubsub.googleapis.com:443", PubsubPlace("europe-west1-pubsub.googleapis.com:443", True)),
        ("europe-west1-pubsub.googleapis.com", PubsubPlace("europe-west1-pubsub.googleapis.com:443", True)),
        ("https://localhost:1/", PubsubPlace("localhost:1", True)),
        ("http://[::1]:8085", PubsubPlace("[::1]:8085", False)),
    ],
)
def test_an_endpoint(endpoint: str, place: PubsubPlace) -> None:
    assert settings_of(project="p", endpoint=endpoint).place == place


def test_without_an_endpoint_it_is_google_s_or_the_emulator_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    assert settings_of(project="p").place == PubsubPlace("pubsub.googleapis.com:443", True)
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:8085")
    assert settings_of(project="p").place == PubsubPlace("localhost:8085", False)
    assert settings_of(project="p", endpoint="a:1").place == PubsubPlace("a:1", True)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "project"),
        ({"project": "P/x"}, "project"),
        ({"project": "p", "topic": "{top}"}, "no template of an address"),
        ({"project": "p", "endpoint": "ftp://a"}, "no endpoint"),
        ({"project": "p", "endpoint": "user@a:1"}, "no endpoint"),
        ({"project": "p", "endpoint": "http://a:1", "credentials_file": "key.json"}, "is not used without TLS"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        plugin.settings.model_validate(settings)
