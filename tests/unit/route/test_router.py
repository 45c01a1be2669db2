"""A record becomes a message."""

from typing import Any

import pytest

from walrelay.errors import Unroutable
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord
from walrelay.route import Router

RECORD = OutboxRecord(
    LSN.parse("16/B374D848"), 0, 1_789_000_123_999, "7", "order", "42", "placed", b"{}", None, None, None, None
)
OWN: list[tuple[str, bytes | None]] = [("id", b"7"), ("type", b"placed"), ("position", b"16/B374D848:0")]


def message(record: OutboxRecord, router: Router | None = None) -> Message:
    (only,) = (router or Router("event.{aggregate_type}")).route(record)
    return only


def headers(text: str | bytes) -> list[tuple[str, bytes | None]]:
    """The row's own headers, without those that walrelay adds."""
    found = message(RECORD._replace(headers=text if isinstance(text, bytes) else text.encode())).headers
    assert found[len(found) - 3 :] == OWN
    return found[: len(found) - 3]


def test_topic_by_template_key_by_aggregate_value_by_payload_time_by_commit() -> None:
    assert message(RECORD) == Message("event.order", b"42", b"{}", OWN, 1_789_000_123)


def test_a_row_may_name_its_topic_itself() -> None:
    assert message(RECORD._replace(topic="special", aggregate_type=None)).topic == "special"
    assert message(RECORD._replace(topic="")).topic == "event.order"


def test_null_stays_null() -> None:
    found = message(RECORD._replace(aggregate_id=None, payload=None, type=None))
    assert (found.key, found.value, [name for name, _ in found.headers]) == (None, None, ["id", "position"])


def test_an_empty_key_and_an_empty_payload_are_not_null() -> None:
    found = message(RECORD._replace(aggregate_id="", payload=b""))
    assert (found.key, found.value) == (b"", b"")


def test_text_that_is_not_utf_8_keeps_its_bytes() -> None:
    found = message(RECORD._replace(id="\udce9", aggregate_id="caf\udce9", type="\udcff"))
    assert found.key == b"caf\xe9"
    assert found.headers[:2] == [("id", b"\xe9"), ("type", b"\xff")]


def test_each_record_has_a_position_of_its_own() -> None:
    router = Router("t")
    places = [(300, 0), (300, 1), (356, 0), (300, 2)]
    found = [message(RECORD._replace(commit_lsn=LSN(lsn), ordinal=ordinal), router) for lsn, ordinal in places]
    assert [each.headers[-1][1] for each in found] == [b"0/12C:0", b"0/12C:1", b"0/164:0", b"0/12C:2"]


def test_headers_keep_their_order_and_their_repetitions() -> None:
    assert headers('{"b": "1", "a": "2", "b": "3"}') == [("b", b"1"), ("a", b"2"), ("b", b"3")]


@pytest.mark.parametrize("text", ["{}", " { } ", "null"])
def test_no_headers_are_no_headers(text: str) -> None:
    assert headers(text) == []


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ('"text"', "text"),
        (r'"\u00e9\n"', "é\n"),
        ('""', ""),
        ("1.50", "1.50"),
        ("100000000000000000000000001", "100000000000000000000000001"),
        ("true", "true"),
        ('{"n": 1.50, "é": ["x", null, {}], "n": 2}', '{"n":1.50,"é":["x",null,{}],"n":2}'),
        ("[]", "[]"),
        ("9" * 5000, "9" * 5000),
        ("1e99999999999999999999", "1e99999999999999999999"),
    ],
)
def test_a_header_is_the_string_or_the_json_that_it_is(value: str, header: str) -> None:
    assert headers(f'{{"h": {value}}}') == [("h", header.encode())]


def test_a_null_header_is_there_and_has_no_value() -> None:
    assert headers('{"h": null}') == [("h", None)]


def test_header_bytes_that_are_not_utf_8_stay_as_they_are() -> None:
    assert headers(b'{"h": "\xe9"}') == [("h", b"\xe9")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "it is a list"),
        ('"x"', "it is a text"),
        ("1", "it is a number"),
        ("true", "it is a boolean"),
        ("{", "Expecting"),
        (" ", "Expecting"),
        ('{"h": 1} x', "Extra data"),
        (r'{"h": "\ud800"}', "half of a surrogate pair"),
        (r'{"h": ["\udc80"]}', "half of a surrogate pair"),
        (r'{"\ud800": "v"}', "half of a surrogate pair"),
        ('{"h": ' + "[" * 100_000, "it is nested too deeply: more than 500 levels are not read"),
        ('{"h": ' + "[" * 900 + "]" * 900 + "}", "it is nested too deeply: more than 500 levels are not read"),
    ],
)
def test_headers_that_are_no_json_object_of_text_are_unroutable(text: str, why: str) -> None:
    with pytest.raises(Unroutable, match="the headers of record 7 at 16/B374D848:0 are not a JSON object") as caught:
        headers(text)
    assert why in str(caught.value)
    assert "traceparent" in caught.value.hint


def test_a_header_name_that_is_not_utf_8_is_unroutable() -> None:
    with pytest.raises(Unroutable, match="surrogates not allowed"):
        headers(b'{"\xe9": "v"}')


@pytest.mark.parametrize("change", [{"topic": "caf\udce9"}, {"aggregate_type": "caf\udce9"}])
def test_a_topic_that_is_not_utf_8_is_unroutable(change: dict[str, Any]) -> None:
    """A SQL_ASCII database can hold one, and confluent-kafka answers it with an error that no code expects."""
    with pytest.raises(Unroutable, match=r"the topic of record 7 at 16/B374D848:0 is not UTF-8"):
        message(RECORD._replace(**change))


def test_a_topic_may_have_any_letters() -> None:
    assert message(RECORD._replace(aggregate_type="café")).topic == "event.café"


@pytest.mark.parametrize(
    ("template", "record"),
    [
        ("events", RECORD._replace(topic="positions")),
        ("{type}", RECORD._replace(type="positions")),
        ("{tenant_id}s", RECORD._replace(tenant_id="position")),
    ],
)
def test_a_record_is_not_routed_to_the_topic_of_the_relays_positions(template: str, record: OutboxRecord) -> None:
    """The last record of a key there says where that relay begins."""
    router = Router(template, frozenset({"positions"}))
    for _ in range(2):  # rendered topics are remembered
        with pytest.raises(Unroutable, match=r"'positions' of record 7 at \S+ is where relays keep"):
            router.route(record)
    assert Router(template).route(record)[0].topic == "positions"
