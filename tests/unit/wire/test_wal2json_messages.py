"""What the plugin prints becomes values with PostgreSQL's own text; what it cannot have printed is a ProtocolError."""

import json
from typing import Any

import pytest

from walrelay.errors import ProtocolError
from walrelay.lsn import LSN
from walrelay.wire.frames import xlogdata
from walrelay.wire.wal2json import (
    EmittedMessage,
    Insert,
    Message,
    TransactionBegin,
    TransactionEnd,
    Value,
    parse_line,
    parse_transaction,
)

HEADER = LSN.parse("0/1963D70")
CLOCK = "2026-11-21 09:58:54.95604+00"
BEGIN = {"action": "B", "xid": 1, "timestamp": CLOCK, "lsn": "0/1963E38", "nextlsn": "0/1963E68"}
COMMIT = {**BEGIN, "action": "C"}
INSERT = {"action": "I", "schema": "public", "table": "outbox", "columns": [{"name": "id", "typeoid": 23, "value": 1}]}
MESSAGE = {"action": "M", "xid": None, "transactional": False, "prefix": "p", "content": "c"}
CHANGE = {
    "kind": "insert",
    "schema": "public",
    "table": "outbox",
    "columnnames": ["id"],
    "columntypeoids": [23],
    "columnvalues": [1],
}
TRANSACTION = {"xid": 1, "nextlsn": "0/1963E68", "timestamp": CLOCK, "change": [CHANGE]}


def framed(message: str | bytes | dict[str, Any]) -> bytes:
    if isinstance(message, dict):
        message = json.dumps(message)
    return xlogdata(HEADER, HEADER, message.encode() if isinstance(message, str) else message)


def line(message: str | bytes | dict[str, Any]) -> list[Message]:
    return list(parse_line(framed(message)))


def transaction(message: str | bytes | dict[str, Any]) -> list[Message]:
    return list(parse_transaction(framed(message)))


def value(printed: str, type_oid: int = 25) -> Value:
    column = f'{{"name":"c","typeoid":{type_oid},"value":{printed}}}'
    (row,) = line(f'{{"action":"I","schema":"public","table":"outbox","columns":[{column}]}}')
    assert isinstance(row, Insert)
    return row.columns["c"]


def test_begin_has_where_the_commit_record_starts_and_its_clock_in_microseconds() -> None:
    assert line(BEGIN) == [TransactionBegin(LSN.parse("0/1963E38"), 1795255134956040)]


def test_commit_has_where_the_commit_record_ends() -> None:
    assert line(COMMIT) == [TransactionEnd(LSN.parse("0/1963E38"), LSN.parse("0/1963E68"))]


@pytest.mark.parametrize(
    ("clock", "microseconds"),
    [
        ("1970-01-01 00:00:00+00", 0),
        ("1970-01-01 00:00:01.5+00", 1_500_000),
        ("1969-12-31 23:59:59.999999+00", -1),
        ("1970-01-01 05:30:00.000001+05:30", 1),
    ],
)
def test_a_clock_is_exact_whatever_fraction_and_zone_are_printed(clock: str, microseconds: int) -> None:
    assert line({**BEGIN, "timestamp": clock}) == [TransactionBegin(LSN.parse("0/1963E38"), microseconds)]


@pytest.mark.parametrize(
    ("printed", "type_oid", "text"),
    [
        ("1.50", 1700, b"1.50"),
        ("12345678901234567890.000", 1700, b"12345678901234567890.000"),
        ("-0", 701, b"-0"),
        ("1e+300", 701, b"1e+300"),
        ("9223372036854775807", 20, b"9223372036854775807"),
        ("9" * 5000, 1700, b"9" * 5000),
        ("true", 16, b"t"),
        ("false", 16, b"f"),
        ("null", 25, None),
        ('"00ff"', 17, b"\\x00ff"),
        ('""', 17, b"\\x"),
        ('"\\"\\\\/\\b\\f\\n\\r\\t\\u0001"', 25, b'"\\/\b\f\n\r\t\x01'),
        ('"é𝄞"', 25, "é𝄞".encode()),
        ('"1.50"', 1700, b"1.50"),
    ],
)
def test_a_value_is_the_text_postgresql_prints(printed: str, type_oid: int, text: bytes | None) -> None:
    assert value(printed, type_oid) == (type_oid, text)


def test_bytes_that_are_not_utf8_come_out_as_they_went_in() -> None:
    (message,) = line(b'{"action":"M","transactional":true,"prefix":"p","content":"a\xffb"}')
    assert message == EmittedMessage(True, HEADER, "p", b"a\xffb")


def test_a_type_oid_that_format_2_prints_as_negative_is_the_unsigned_one() -> None:
    assert value("null", -294967296) == (4_000_000_000, None)


def test_changes_that_are_no_inserts_are_no_messages() -> None:
    for action in "UDT":
        assert line({"action": action, "schema": "public", "table": "outbox"}) == []


def test_format_1_is_the_same_sequence_with_the_last_byte_of_the_commit_record_as_its_position() -> None:
    end = LSN.parse("0/1963E68")
    inside = {"kind": "message", "transactional": True, "prefix": "p", "content": "c"}
    assert transaction({**TRANSACTION, "change": [CHANGE, {"kind": "delete"}, inside]}) == [
        TransactionBegin(LSN(end - 1), 1795255134956040),
        Insert("public", "outbox", {"id": (23, b"1")}),
        EmittedMessage(True, HEADER, "p", b"c"),
        TransactionEnd(LSN(end - 1), end),
    ]


@pytest.mark.parametrize("comma", ["", ","])  # 2.5 prints a comma behind a transaction of two changes, 2.6 does not
def test_a_non_transactional_message_of_format_1_stands_alone(comma: str) -> None:
    printed = f'{{"change":[{comma}{{"kind":"message","transactional":false,"prefix":"a,b","content":"c,d"}}]}}'
    assert transaction(printed) == [EmittedMessage(False, HEADER, "a,b", b"c,d")]


NEEDED = [
    (BEGIN, ("action", "lsn", "timestamp")),
    (COMMIT, ("action", "lsn", "nextlsn")),
    (INSERT, ("action", "schema", "table", "columns")),
    (MESSAGE, ("action", "transactional", "prefix", "content")),
]


@pytest.mark.parametrize(("message", "key"), [(message, key) for message, keys in NEEDED for key in keys])
def test_a_message_without_a_key_it_needs_is_a_protocol_error(message: dict[str, Any], key: str) -> None:
    with pytest.raises(ProtocolError, match="at 0/1963D70"):
        line({name: value for name, value in message.items() if name != key})


@pytest.mark.parametrize("wrong", [None, 1, 1.5, {}, [1], [None], [{}]])
@pytest.mark.parametrize(("message", "key"), [(message, key) for message, keys in NEEDED for key in keys])
def test_a_value_of_a_wrong_kind_is_a_protocol_error(message: dict[str, Any], key: str, wrong: object) -> None:
    with pytest.raises(ProtocolError, match="at 0/1963D70"):
        line({**message, key: wrong})


@pytest.mark.parametrize("wrong", ["", "no LSN", "0/1/2", "0/123456789", "\ud800"])
@pytest.mark.parametrize(
    ("message", "key"), [(BEGIN, "lsn"), (BEGIN, "timestamp"), (COMMIT, "lsn"), (COMMIT, "nextlsn")]
)
def test_a_text_that_is_no_position_or_clock_is_a_protocol_error(message: dict[str, Any], key: str, wrong: str) -> None:
    with pytest.raises(ProtocolError, match="at 0/1963D70"):
        line({**message, key: wrong})


@pytest.mark.parametrize("key", ["name", "typeoid", "value"])
@pytest.mark.parametrize("wrong", [None, [], {}, [1], {"a": 1}, ...])
def test_a_column_that_is_not_one_is_a_protocol_error(key: str, wrong: object) -> None:
    column = {"name": "id", "typeoid": 23, "value": 1, key: wrong}
    if wrong is ...:
        del column[key]
    if (key, wrong) == ("value", None):
        return
    with pytest.raises(ProtocolError, match="at 0/1963D70"):
        line({**INSERT, "columns": [column]})


@pytest.mark.parametrize("key", ["schema", "table", "columnnames", "columntypeoids", "columnvalues", "kind"])
def test_a_change_of_format_1_that_is_not_whole_is_a_protocol_error(key: str) -> None:
    damages: tuple[object, ...] = (None, 1, [], [1, 2], ...)
    for wrong in damages:
        change = {name: wrong if name == key else old for name, old in CHANGE.items()}
        if wrong is ...:
            del change[key]
        with pytest.raises(ProtocolError, match="at 0/1963D70"):
            transaction({**TRANSACTION, "change": [change]})


@pytest.mark.parametrize("key", ["nextlsn", "timestamp", "change"])
def test_a_transaction_of_format_1_without_its_position_or_clock_is_a_protocol_error(key: str) -> None:
    with pytest.raises(ProtocolError):
        transaction({name: old for name, old in TRANSACTION.items() if name != key})


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        '"B"',
        '{"action":"B"}',
        '{"action":"X"}',
        '{"change":[]}',
        '{"change":[{"kind":"truncate"}],"nextlsn":"0/1","timestamp":"2026-11-21 09:58:54+00"}',
        '{"change":[{"kind":"message","transactional":false,"prefix":"p","content":"c"}],'
        '"nextlsn":"0/1","timestamp":"2026-11-21 09:58:54+00"}',
        '{"change":[{"kind":"message","transactional":true,"prefix":"p","content":"c"}]}',
        '{"xid":1,"change":[{"kind":"message","transactional":false,"prefix":"p","content":"c"}]}',
        '{"action":"C","lsn":"0/2","nextlsn":"0/2"}',
        '{"action":"B","lsn":"0/1","timestamp":"2026-11-21 09:58:54"}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","typeoid":701,"value":NaN}]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","typeoid":701,"value":-Infinity}]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","typeoid":25,"value":"\\ud800"}]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","typeoid":25,"value":"\n"}]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","typeoid":"25","value":""}]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","typeoid":25,"value":1},'
        '{"name":"a","typeoid":25,"value":1}]}',
        "[" * 100_000,
    ],
)
def test_what_the_plugin_never_prints_is_a_protocol_error_in_either_format(printed: str) -> None:
    for parse in (line, transaction):
        with pytest.raises(ProtocolError, match="at 0/1963D70"):
            parse(printed)


def test_an_error_names_keys_and_never_what_a_row_holds() -> None:
    with pytest.raises(ProtocolError) as error:
        line({"action": "I", "table": "outbox", "columns": [{"name": "id", "typeoid": 25, "value": "a secret"}]})
    assert "'columns'" in str(error.value)
    assert "secret" not in str(error.value)
