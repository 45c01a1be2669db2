"""Lines as wal2json prints them; tests/integration/wire/test_wal2json_lines.py compares with the plugin itself."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walrelay.wire.wal2json_lines import BEGIN, COMMIT, ColumnText, insert, logical_message


def printed(type_name: str, type_oid: int, text: str | None) -> bytes:
    """What stands for one column between the brackets, without its name."""
    return insert("s", "t", [ColumnText("c", type_name, type_oid, text)]).split(b'{"name":"c",')[1].removesuffix(b"}]}")


def test_an_insert_is_printed_without_blanks_in_the_order_of_the_columns() -> None:
    line = insert(
        "public",
        'odd "name"',
        [ColumnText("id", "integer", 23, "1"), ColumnText("note", "character varying(30)", 1043, "ein „Wort“")],
    )
    assert line.decode() == (
        '{"action":"I","schema":"public","table":"odd \\"name\\"","columns":['
        '{"name":"id","type":"integer","value":1},'
        '{"name":"note","type":"character varying(30)","value":"ein „Wort“"}]}'
    )


def test_a_transaction_begins_and_ends_with_bare_actions() -> None:
    assert (BEGIN, COMMIT) == (b'{"action":"B"}', b'{"action":"C"}')


@pytest.mark.parametrize(
    ("type_name", "type_oid", "text", "value"),
    [
        ("numeric", 1700, "1.50", b"1.50"),
        ("numeric(10,2)", 1700, "NaN", b"null"),
        ("double precision", 701, "-Infinity", b"null"),
        ("real", 700, "1e-07", b"1e-07"),
        ("bigint", 20, "-9223372036854775808", b"-9223372036854775808"),
        ("oid", 26, "4294967295", b"4294967295"),
        ("boolean", 16, "t", b"true"),
        ("boolean", 16, "f", b"false"),
        ("bytea", 17, "\\x00ff", b'"00ff"'),
        ("text", 25, "NaN", b'"NaN"'),
        ("text", 25, None, b"null"),
        ("text", 25, '"\\/\b\f\n\r\t\x01\x1f\x7f', b'"\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f"'),
        ("text", 25, "\udcff", b'"\xff"'),
        ("money", 790, "$1.50", b'"$1.50"'),
        ("integer[]", 1007, "{1,NULL}", b'"{1,NULL}"'),
    ],
)
def test_a_value_is_quoted_unless_it_is_a_number_a_boolean_or_null(
    type_name: str, type_oid: int, text: str | None, value: bytes
) -> None:
    assert printed(type_name, type_oid, text) == b'"type":"%s","value":%s' % (type_name.encode(), value)


@pytest.mark.parametrize(
    ("type_name", "as_printed"),
    [
        ('"Mood"', b'"Mood"'),
        ('"char"', b'"char"'),
        ('"Mood"[]', b'"\\"Mood\\"[]"'),
        ('odd."Mood"', b'"odd.\\"Mood\\""'),
        ('"Odd, Schema".mood', b'"Odd, Schema".mood'),  # no JSON, but what the plugin prints
    ],
)
def test_a_type_name_in_quotes_is_taken_for_json_as_the_plugin_takes_it(type_name: str, as_printed: bytes) -> None:
    assert printed(type_name, 99, None) == b'"type":%s,"value":null' % as_printed


def test_the_content_of_a_message_ends_at_its_first_nul_as_it_does_in_the_plugin() -> None:
    assert logical_message(transactional=False, prefix='p"', content=b"a\xff\n\0b") == (
        b'{"action":"M","transactional":false,"prefix":"p\\"","content":"a\xff\\n"}'
    )


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_text_is_read_back_from_the_json(text: str) -> None:
    line = insert(text, text, [ColumnText(text, "text", 25, text)])
    assert json.loads(line) == {
        "action": "I",
        "schema": text,
        "table": text,
        "columns": [{"name": text, "type": "text", "value": text}],
    }
