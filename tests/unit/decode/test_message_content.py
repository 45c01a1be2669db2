"""Logical messages as outbox records: which JSON is one, and that a payload stays the text it was."""

import pytest

from walrelay.decode.contract import Columns
from walrelay.decode.messages import message_fields
from walrelay.errors import Undecodable


def fields(content: str | bytes) -> dict[str, bytes | None]:
    text = content if isinstance(content, bytes) else content.encode()
    return dict(zip(Columns._fields, message_fields(text, "16/B374D848:0"), strict=True))


def test_every_role_may_be_given() -> None:
    names = [role for role in Columns._fields if role not in ("payload", "headers")]
    content = ", ".join(f'"{name}": "{name} value"' for name in names)
    found = fields(f'{{{content}, "payload": [1], "headers": {{"h": "v"}}}}')
    assert found == {
        **{name: f"{name} value".encode() for name in names},
        "payload": b"[1]",
        "headers": b'{"h": "v"}',
    }


def test_what_is_not_given_or_null_is_null() -> None:
    found = fields('{"id": "1", "payload": null, "type": null}')
    assert found == {**dict.fromkeys(Columns._fields), "id": b"1"}


PAYLOADS = [
    "1.50",
    "0.10000000000000000000000000000001",
    "1e400",
    "-0",
    "12345678901234567890123456789",
    "9" * 5000,
    '"text"',
    r'"\u00e9 \ud83d\ude00 \n \/ \" \\"',
    '"é 😀"',
    '{ "b" : 1 , "a":[ 1 ,2 ] }',
    '{"a": 1, "a": 2}',
    '{"deep": ' + "[" * 50 + "]" * 50 + "}",
    '"}, \\"id\\": \\"other\\""',
    "true",
    "[]",
    "{}",
    '""',
]


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("form", ['{"id":"1","payload":%s}', ' {\n"payload" :\t%s \r\n, "id" : "1" } '])
def test_a_payload_is_the_very_text_that_stands_there(form: str, payload: str) -> None:
    assert fields(form % payload)["payload"] == payload.encode()


def test_headers_are_the_very_text_that_stands_there() -> None:
    assert fields('{"id": "1", "payload": 1, "headers": {"n":  1.50}}')["headers"] == b'{"n":  1.50}'


@pytest.mark.parametrize(
    ("value", "text"), [('"a"', "a"), (r'"\u00e9\n"', "é\n"), ("42", "42"), ("1.50", "1.50"), ("-0", "-0")]
)
def test_other_roles_are_the_string_that_is_meant_or_the_number_as_it_is_written(value: str, text: str) -> None:
    found = fields(f'{{"id": {value}, "aggregate_id": {value}, "payload": 1}}')
    assert found["id"] == found["aggregate_id"] == text.encode()


def test_bytes_that_are_not_utf_8_stay_as_they_are() -> None:
    found = fields(b'{"id": "caf\xe9", "payload": "\xff"}')
    assert (found["id"], found["payload"]) == (b"caf\xe9", b'"\xff"')


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "'{' expected"),
        ("[]", "'{' expected"),
        ("null", "'{' expected"),
        ("{}", "no id, payload"),
        ('{"id": "1"}', "no payload"),
        ('{"payload": 1}', "no id"),
        ('{"id": null, "payload": 1}', "no id"),
        ('{"id": "1", "payload": 1, "topik": "x"}', "'topik' is not a role"),
        ('{"id": "1", "payload": 1, "id": "2"}', "'id' is there twice"),
        ('{"id": true, "payload": 1}', "id is neither a string nor a number"),
        ('{"id": ["1"], "payload": 1}', "id is neither a string nor a number"),
        ('{"id": "1", "payload": 1} {}', "there is more text after"),
        ('{"id": "1", "payload": 1', "',' expected"),
        ('{"id": "1", "payload": }', "Expecting value"),
        ('{"id": "1", "payload": 1,}', ""),
        ('{"id" "1"}', "':' expected"),
        ("{1: 2}", "key '1' is not a role"),
        ("{'id': 1}", ""),
        ('{"id": "\\ud800", "payload": 1}', "half of a surrogate pair"),
        ('{"id": "1", "payload": NaN}', "NaN"),
        ('{"id": "1", "payload": [-Infinity]}', "-Infinity"),
        ('{"id": "1", "payload": ' + "[" * 100_000, "it is nested too deeply"),
        ('{"id": "1", "payload": "\n"}', ""),
    ],
)
def test_anything_else_is_undecodable_and_says_where_and_why(content: str, why: str) -> None:
    with pytest.raises(Undecodable) as caught:
        fields(content)
    assert str(caught.value).startswith("the logical message at 16/B374D848:0 is not an outbox record: ")
    assert why in str(caught.value)
    assert "id, aggregate_type" in caught.value.hint
