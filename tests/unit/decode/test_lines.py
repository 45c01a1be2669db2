"""Records as lines of JSON: nothing is reformatted, nothing is lost, and a line is a line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import pgoutput_encoder as server
from walrelay.decode.contract import Columns, Outbox
from walrelay.decode.lines import Line, RecordLines, record_line
from walrelay.decode.pgoutput import PgoutputDecoder
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
    lines = RecordLines(PgoutputDecoder(Outbox(columns=columns)))
    bodies = [
        server.begin(100),
        server.relation(1, "public", "outbox", [("id", 25), ("payload", 25)]),
        server.insert(1, [b"a", b"b"]),
        server.commit(100, 120),
    ]
    items = [item for body in bodies for item in lines.read(xlogdata(100, 100, body))]
    assert [type(item) for item in items] == [Line, Committed]
    assert list(lines.read(keepalive(200))) == [Idle(LSN(200))]
