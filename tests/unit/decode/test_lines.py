"""Records as lines of JSON: nothing is reformatted, nothing is lost, and a line is a line."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import pgoutput_encoder as server
from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.decode.lines import (
    ColumnType,
    LineReader,
    PluginLineReader,
    RecordLineReader,
    RenderedLineReader,
    TailItem,
    TailLine,
    record_line,
)
from walrelay.decode.pgoutput import PgoutputDecoder
from walrelay.errors import ProtocolError
from walrelay.lsn import LSN
from walrelay.model import Committed, Idle, OutboxRecord
from walrelay.wire.frames import keepalive, xlogdata

EMPTY = OutboxRecord(LSN.parse("16/B374D848"), 3, 0, "1", None, None, None, None, None, None, None, None)


def printed(**fields: Any) -> bytes:
    return record_line(EMPTY._replace(**fields))


def test_a_line_has_the_position_the_time_and_every_role() -> None:
    line = printed(committed_at=1_795_254_334_956_040, type="placed", payload=b'{"a": 1.50}')
    assert line.decode() == (
        '{"position": "16/B374D848:3", "committed_at": "2026-11-21T09:45:34.956040Z", "id": "1",'
        ' "aggregate_type": null, "aggregate_id": null, "type": "placed", "payload": {"a": 1.50}, "headers": null,'
        ' "topic": null, "tenant_id": null, "created_at": null}'
    )


@pytest.mark.parametrize("microseconds", ["000000", "000001"])
def test_the_time_always_has_six_digits(microseconds: str) -> None:
    assert f'"1970-01-01T00:00:01.{microseconds}Z"'.encode() in printed(committed_at=1_000_000 + int(microseconds))


@pytest.mark.parametrize(
    ("payload", "member"),
    [
        (b'{"n": 1.00000000000000000000000000000000001}', b'{"n": 1.00000000000000000000000000000000001}'),
        (b'{"a": 1, "a":  2}', b'{"a": 1, "a":  2}'),
        (b'{"a":\n  "\\u00e4\\n"\r\n}', b'{"a":   "\\u00e4\\n"  }'),
        (b"[" + b"7" * 10_000 + b"]", b"[" + b"7" * 10_000 + b"]"),
        (b"[NaN]", b'"[NaN]"'),
        (b'{"a": "\n"}', b'"{\\"a\\": \\"\\n\\"}"'),
        (b"[" * 100_000, b'"' + b"[" * 100_000 + b'"'),
        (b'"a"', b'"\\"a\\""'),
        (b"a", b'"a"'),
        (b"1.50", b'"1.50"'),
        (b"null", b'"null"'),
        (b"", b'""'),
        ("ä\u2028".encode(), '"ä\u2028"'.encode()),
        (b"\xff\x00", b'{"base64": "/wA="}'),
        (None, b"null"),
    ],
)
@pytest.mark.parametrize("role", ["payload", "headers"])
def test_documents_stand_as_they_are_other_text_is_a_string_and_other_bytes_are_base64(
    role: str, payload: bytes | None, member: bytes
) -> None:
    assert b'"%s": %s, "' % (role.encode(), member) in printed(**{role: payload})


def test_a_text_role_is_never_taken_for_a_document_and_never_breaks_the_line() -> None:
    line = printed(aggregate_id="[1]", tenant_id="a\n\udcff")
    assert json.loads(line)["aggregate_id"] == "[1]"
    assert json.loads(line)["tenant_id"] == {"base64": "YQr/"}


DOCUMENTS = st.recursive(
    st.none() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
).map(lambda value: json.dumps(value, indent=1).encode())


@given(st.binary() | st.text().map(str.encode) | DOCUMENTS)
def test_any_payload_is_one_line_that_is_json(payload: bytes) -> None:
    line = printed(payload=payload)
    assert b"\n" not in line
    assert b"\r" not in line
    assert list(json.loads(line)) == ["position", "committed_at", *Columns._fields]


def test_a_transaction_is_its_records_and_then_its_end() -> None:
    columns = Columns(**dict.fromkeys(Columns._fields))._replace(id="id", payload="payload")
    lines = RecordLineReader(PgoutputDecoder(OutboxLayout(columns=columns)))
    bodies = [
        server.begin(100),
        server.relation(1, "public", "outbox", [("id", 25), ("payload", 25)]),
        server.insert(1, [b"a", b"b"]),
        server.commit(100, 120),
    ]
    items = [item for body in bodies for item in lines.read(xlogdata(100, 100, body))]
    assert [type(item) for item in items] == [TailLine, Committed]
    assert list(lines.read(keepalive(200))) == [Idle(LSN(200))]


B, C = TailLine(b'{"action":"B"}', record=False), TailLine(b'{"action":"C"}', record=False)
RELATION = server.relation(7, "public", "outbox", [("id", 23)])
OTHER = server.relation(8, "public", "other", [("id", 23)])


def names(columns: Sequence[ColumnType]) -> list[str]:
    return [f"type {oid}" if then is None else ".".join(then) for oid, _, then in columns]


def row(value: int) -> TailLine:
    return TailLine(
        b'{"action":"I","schema":"public","table":"outbox","columns":[{"name":"id","type":"type 23","value":%d}]}'
        % value
    )


def message(prefix: str, *, transactional: bool = True) -> bytes:
    flag = "true" if transactional else "false"
    return f'{{"action":"M","transactional":{flag},"prefix":"{prefix}","content":"x"}}'.encode()


def read(lines: LineReader, *bodies: bytes) -> list[TailItem]:
    """`lsn` of the frames counts from 100."""
    return [item for lsn, body in enumerate(bodies, 100) for item in lines.read(xlogdata(lsn, lsn, body))]


@pytest.fixture
def rendered() -> RenderedLineReader:
    return RenderedLineReader(OutboxLayout(prefix="walrelay"), names)


@pytest.fixture
def plugin() -> PluginLineReader:
    return PluginLineReader("walrelay")


def test_rows_of_the_outbox_are_rendered_between_b_and_c(rendered: RenderedLineReader) -> None:
    bodies = [
        server.begin(200),
        OTHER,
        server.insert(8, [b"0"]),
        RELATION,
        server.insert(7, [b"1"]),
        server.insert(8, [b"0"]),
        server.update(7, [b"5"]),
        server.insert(7, [b"2"]),
        server.commit(200, 220),
    ]
    assert read(rendered, *bodies) == [B, row(1), row(2), C, Committed(LSN(220))]


def test_a_transaction_without_a_record_prints_nothing(rendered: RenderedLineReader, plugin: PluginLineReader) -> None:
    bodies = [server.begin(200), OTHER, server.insert(8, [b"0"]), server.message("of others", b"x")]
    assert read(rendered, *bodies, server.commit(200, 220)) == [Idle(LSN(220))]
    assert read(plugin, B.text, message("of others"), C.text) == [Idle(LSN(102))]


def test_the_plugins_own_lines_pass_unchanged(plugin: PluginLineReader) -> None:
    lines = [row(1).text, message("walrelay"), message("walrelay 2"), row(2).text]
    assert read(plugin, B.text, *lines, C.text) == [
        B, row(1), TailLine(message("walrelay")), row(2), C, Committed(LSN(105)),
    ]  # fmt: skip


def test_a_message_outside_any_transaction_is_a_record_of_its_own(
    rendered: RenderedLineReader, plugin: PluginLineReader
) -> None:
    line = TailLine(message("walrelay", transactional=False))
    assert read(plugin, line.text) == [line, Idle(LSN(100))]
    assert read(rendered, server.message("walrelay", b"x", lsn=90, transactional=False)) == [line, Idle(LSN(90))]


def test_without_a_prefix_no_message_is_a_record() -> None:
    assert read(PluginLineReader(None), B.text, message("walrelay"), C.text) == [Idle(LSN(102))]
    rendered = RenderedLineReader(OutboxLayout(prefix=None), names)
    bodies = [server.begin(200), server.message("walrelay", b"x"), server.commit(200, 220)]
    assert read(rendered, *bodies) == [Idle(LSN(220))]


def test_a_keepalive_inside_a_transaction_says_nothing(rendered: RenderedLineReader, plugin: PluginLineReader) -> None:
    for lines, begin in ((rendered, server.begin(200)), (plugin, B.text)):
        assert list(lines.read(keepalive(300))) == [Idle(LSN(300))]
        assert read(lines, begin) == []
        assert list(lines.read(keepalive(300))) == []


@pytest.mark.parametrize(
    "bodies",
    [
        [server.begin(200), server.begin(200)],
        [server.commit(200, 220)],
        [server.begin(200), server.insert(7, [b"1"])],
        [RELATION, server.insert(7, [b"1"])],
        [server.begin(200), RELATION, server.insert(7, [b"1", b"2"])],
        [server.message("walrelay", b"x")],
        [b"?"],
        [b""],
    ],
)
def test_what_the_protocol_does_not_allow_is_an_error(rendered: RenderedLineReader, bodies: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        read(rendered, *bodies)


@pytest.mark.parametrize(
    "bodies",
    [
        [B.text, B.text],
        [C.text],
        [row(1).text],
        [message("walrelay")],
        [B.text, b'{"action":"U"}'],
        [b""],
        [b'{"action":"B","xid":7}'],
    ],
)
def test_a_line_of_the_plugin_that_was_not_asked_for_is_an_error(plugin: PluginLineReader, bodies: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        read(plugin, *bodies)


def test_a_type_has_the_name_that_the_stream_gave_it(rendered: RenderedLineReader) -> None:
    announced = b"Y" + (23).to_bytes(4) + b"odd\0mood\0"
    begin, *_ = read(rendered, server.begin(200), announced, RELATION, server.insert(7, [b"1"]))[1:]
    assert isinstance(begin, TailLine)
    assert b'"type":"odd.mood"' in begin.text
    with pytest.raises(ProtocolError, match="a Type message"):
        read(rendered, announced + b"more")
    with pytest.raises(ProtocolError, match="a Type message"):
        read(rendered, announced[:-1])
