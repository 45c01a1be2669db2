"""The rules of the wal2json decoder, message by message."""

import json
from typing import Any

import pytest

from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.decode.wal2json import Wal2jsonDecoder
from walrelay.errors import ProtocolError, Undecodable
from walrelay.lsn import LSN
from walrelay.model import Committed, Event, Idle, OutboxRecord, Skipped, Undecoded
from walrelay.wire.frames import keepalive, xlogdata

START, END = LSN.parse("16/B374D810"), LSN.parse("16/B374D848")
CLOCK = "1970-01-01 00:00:01+00"
BEGIN = {"action": "B", "timestamp": CLOCK, "lsn": str(START), "nextlsn": str(END)}
COMMIT = {**BEGIN, "action": "C"}

ONLY_REQUIRED = Columns(**dict.fromkeys(Columns._fields))._replace(id="id", payload="payload")
OUTBOX = OutboxLayout(prefix="walrelay", columns=ONLY_REQUIRED)

Column = tuple[str, int, object]
ID: Column = ("id", 23, 7)
PAYLOAD: Column = ("payload", 114, '{"a": 1}')


def row(*columns: Column, schema: str = "public", table: str = "outbox") -> dict[str, Any]:
    printed = [{"name": name, "typeoid": oid, "value": value} for name, oid, value in columns]
    return {"action": "I", "schema": schema, "table": table, "columns": printed}


def message(content: object, *, prefix: str = "walrelay", transactional: bool = True) -> dict[str, Any]:
    return {"action": "M", "transactional": transactional, "prefix": prefix, "content": json.dumps(content)}


def frame(message: dict[str, Any]) -> bytes:
    return xlogdata(START, START, json.dumps(message).encode())


def decode(*messages: dict[str, Any] | bytes, outbox: OutboxLayout = OUTBOX) -> list[Event]:
    """The events of format version 2; bytes are a frame already."""
    decoder = Wal2jsonDecoder(outbox, 2)
    frames = [message if isinstance(message, bytes) else frame(message) for message in messages]
    return [event for each in frames for event in decoder.decode(each)]


def record(*columns: Column, outbox: OutboxLayout = OUTBOX) -> OutboxRecord:
    event = decode(BEGIN, row(*columns), outbox=outbox)[0]
    assert isinstance(event, OutboxRecord)
    return event


def with_role(role: str, column: str) -> OutboxLayout:
    return OutboxLayout(prefix="walrelay", columns=ONLY_REQUIRED._replace(**{role: column}))


def test_rows_and_messages_are_numbered_together_in_the_order_of_the_stream() -> None:
    events = decode(
        BEGIN,
        row(ID, PAYLOAD),
        row(ID, PAYLOAD, table="other"),
        message({"id": "m", "payload": None}),
        message({}, prefix="foreign"),
        row(ID, PAYLOAD),
        COMMIT,
    )
    records = [event for event in events if isinstance(event, OutboxRecord)]
    assert [(each.position, each.id) for each in records] == [
        ("16/B374D810:0", "7"),
        ("16/B374D810:1", "m"),
        ("16/B374D810:2", "7"),
    ]
    assert events[3:] == [Committed(END)]


def test_numbering_starts_anew_in_each_transaction() -> None:
    events = decode(*[BEGIN, row(ID, PAYLOAD), COMMIT] * 2)
    assert [event.ordinal for event in events if isinstance(event, OutboxRecord)] == [0, 0]


def test_a_record_carries_its_commit_and_nothing_for_roles_without_a_column() -> None:
    assert record(ID, PAYLOAD) == OutboxRecord(
        START, 0, 1_000_000, "7", None, None, None, b'{"a": 1}', None, None, None, None
    )


def test_a_transaction_without_an_outbox_record_is_idle_progress() -> None:
    assert decode(BEGIN, row(ID, table="other"), row(ID, schema="other"), {"action": "U"}, COMMIT) == [Idle(END)]


def test_a_keepalive_outside_a_transaction_is_idle_progress_and_inside_it_is_nothing() -> None:
    beat = keepalive(END)
    assert decode(beat) == [Idle(END)]
    assert decode(BEGIN, beat, COMMIT, beat) == [Idle(END), Idle(END)]


def test_a_bytea_payload_is_bytes_and_in_any_other_role_it_is_postgresqls_text() -> None:
    found = record(("id", 17, "00ff"), ("payload", 17, "00ff"))
    assert (found.id, found.payload) == ("\\x00ff", b"\x00\xff")


def test_a_bytea_that_is_not_hex_is_an_error_with_column_row_and_position() -> None:
    what = "column 'payload' of public.outbox cannot be read in the row with id 7 at 16/B374D810:0"
    with pytest.raises(Undecodable, match=what):
        record(ID, ("payload", 17, "0x"))


def test_a_null_payload_is_a_record_and_a_null_id_is_not() -> None:
    assert record(ID, ("payload", 114, None)).payload is None
    with pytest.raises(Undecodable, match="16/B374D810:0"):
        record(("id", 23, None), PAYLOAD)


def test_a_role_whose_column_is_gone_stops_the_relay_and_says_which_where_and_what_to_do() -> None:
    with pytest.raises(Undecodable) as error:
        record(ID, PAYLOAD, ("kind", 25, "x"), outbox=with_role("type", "typ"))
    for part in ("public.outbox", "'typ'", "type", "16/B374D810:0", "kind"):
        assert part in str(error.value)
    assert "outbox.columns.type" in error.value.hint


@pytest.mark.parametrize("type_oid", [700, 701, 1700])
def test_a_null_that_may_have_been_nan_is_never_guessed_at(type_oid: int) -> None:
    with pytest.raises(Undecodable, match="NaN") as error:
        record(ID, PAYLOAD, ("n", type_oid, None), outbox=with_role("tenant_id", "n"))
    assert "16/B374D810:0" in str(error.value)
    assert "pgoutput" in error.value.hint


def test_a_null_that_cannot_have_been_nan_is_null() -> None:
    assert record(ID, PAYLOAD, ("n", 20, None), outbox=with_role("tenant_id", "n")).tenant_id is None


def test_a_nan_in_a_column_without_a_role_is_of_no_matter() -> None:
    assert record(ID, PAYLOAD, ("n", 701, None)).id == "7"


def test_a_non_transactional_message_of_ours_stops_the_relay_unless_it_is_to_be_skipped() -> None:
    loose = message({"id": "m", "payload": 1}, transactional=False)
    with pytest.raises(Undecodable, match=str(START)):
        decode(loose)
    (skipped,) = decode(loose, outbox=OUTBOX._replace(skip_non_transactional=True))
    assert isinstance(skipped, Skipped)
    assert skipped.lsn == START
    assert decode(loose, outbox=OUTBOX._replace(prefix=None)) == []


def test_a_message_of_ours_that_is_no_outbox_record_comes_as_it_is_and_the_rows_behind_it_keep_their_ordinals() -> None:
    undecoded, behind = decode(BEGIN, message({"payload": 1}), row(ID, PAYLOAD))
    assert isinstance(undecoded, Undecoded)
    assert (undecoded.position, undecoded.prefix) == ("16/B374D810:0", OUTBOX.prefix)
    assert json.loads(undecoded.content) == {"payload": 1}
    assert "16/B374D810:0 is not an outbox record: no id" in undecoded.reason
    assert isinstance(behind, OutboxRecord)
    assert behind.ordinal == 1


def test_messages_out_of_order_are_protocol_errors() -> None:
    other = {**COMMIT, "lsn": "16/B374D818"}
    for messages in ([BEGIN, BEGIN], [COMMIT], [row(ID, PAYLOAD)], [BEGIN, other], [message({"id": "m"})]):
        with pytest.raises(ProtocolError):
            decode(*messages)


def test_a_frame_of_another_kind_is_a_protocol_error() -> None:
    for unknown in (b"", b"x", b"d{}", b"w", b"k"):
        with pytest.raises(ProtocolError):
            decode(unknown)


def test_format_1_yields_a_transaction_at_once_under_the_position_of_its_last_byte() -> None:
    change = {
        "kind": "insert",
        "schema": "public",
        "table": "outbox",
        "columnnames": ["id", "payload"],
        "columntypeoids": [23, 114],
        "columnvalues": [7, "{}"],
    }
    transaction = {"xid": 1, "nextlsn": str(END), "timestamp": CLOCK, "change": [change, change]}
    decoder = Wal2jsonDecoder(OUTBOX, 1)
    events = list(decoder.decode(frame(transaction)))
    assert [event.position for event in events if isinstance(event, OutboxRecord)] == [
        f"{LSN(END - 1)}:0",
        f"{LSN(END - 1)}:1",
    ]
    assert events[2:] == [Committed(END)]
    assert list(decoder.decode(frame({**transaction, "change": []}))) == [Idle(END)]
    assert list(decoder.decode(keepalive(END))) == [Idle(END)]


def test_in_format_1_what_stands_before_a_row_that_cannot_be_read_comes_before_the_error() -> None:
    """As in the other formats: the relay publishes it, and exactly once its position is behind it."""
    change = {"kind": "insert", "schema": "public", "table": "outbox", "columnnames": ["id", "payload"]}
    rows = [{**change, "columntypeoids": [23, 114], "columnvalues": [id_, "{}"]} for id_ in (7, None, 8)]
    transaction = {"xid": 1, "nextlsn": str(END), "timestamp": CLOCK, "change": rows}
    events = Wal2jsonDecoder(OUTBOX, 1).decode(frame(transaction))
    first = next(iter(events))
    assert isinstance(first, OutboxRecord)
    assert first.id == "7"
    with pytest.raises(Undecodable, match="has no id"):
        list(events)
