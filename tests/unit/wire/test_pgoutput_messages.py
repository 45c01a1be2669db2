"""pgoutput's messages, one by one: what they hold, and what is not allowed."""

from struct import pack

import pytest

from tests import pgoutput_encoder as server
from walrelay.errors import ProtocolError
from walrelay.lsn import LSN
from walrelay.wire import pgoutput
from walrelay.wire.frames import BODY, xlogdata

EPOCH_US = 946_684_800_000_000


def frame(body: bytes) -> bytes:
    return xlogdata(1, 2, body)


def test_message_types_are_the_letters_of_the_manual() -> None:
    names = ("BEGIN", "COMMIT", "ORIGIN", "RELATION", "TYPE", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "MESSAGE")
    assert bytes(getattr(pgoutput, name) for name in names) == b"BCORYIUDTM"


def test_begin_has_where_the_commit_record_starts_and_when_it_was() -> None:
    begin = pgoutput.parse_begin(frame(server.begin(300, committed_at=EPOCH_US + 5, xid=42)))
    assert begin == pgoutput.Begin(LSN(300), EPOCH_US + 5, 42)


def test_commit_has_both_ends_of_the_commit_record() -> None:
    commit = pgoutput.parse_commit(frame(server.commit(300, 356, committed_at=EPOCH_US - 5)))
    assert commit == pgoutput.Commit(LSN(300), LSN(356), EPOCH_US - 5)


@pytest.mark.parametrize("end", [300, 299, 0])
def test_a_commit_that_does_not_end_after_its_start_is_a_protocol_error(end: int) -> None:
    with pytest.raises(ProtocolError, match="not after its start") as caught:
        pgoutput.parse_commit(frame(server.commit(300, end)))
    assert caught.value.lsn == 300


def test_a_relation_has_its_columns_in_the_order_of_its_rows() -> None:
    body = server.relation(16400, "public", "outbox", [("id", 2950), ("größe", 25)])
    columns = (pgoutput.Column("id", 2950, -1), pgoutput.Column("größe", 25, -1))
    assert pgoutput.parse_relation(frame(body)) == pgoutput.Relation(16400, "public", "outbox", columns)


def test_an_empty_schema_is_pg_catalog_and_a_table_may_have_no_columns() -> None:
    relation = pgoutput.parse_relation(frame(server.relation(1, "", "t", [])))
    assert (relation.schema, relation.columns) == ("pg_catalog", ())


def test_an_oid_uses_all_of_its_32_bits() -> None:
    assert pgoutput.parse_relation(frame(server.relation(4_294_967_295, "s", "t", []))).oid == 4_294_967_295
    assert pgoutput.parse_insert(frame(server.insert(4_294_967_295, []))) == (4_294_967_295, 0)


def test_names_that_are_not_utf_8_keep_their_bytes() -> None:
    body = server.relation(1, "s", "caf\udce9", [])
    assert pgoutput.parse_relation(frame(body)).name.encode("utf-8", "surrogateescape") == b"caf\xe9"


@pytest.mark.parametrize("transactional", [True, False])
def test_a_logical_message_has_its_prefix_and_its_content_byte_for_byte(transactional: bool) -> None:
    body = server.message("walrelay", b"\0\xff{}", lsn=77, transactional=transactional)
    assert pgoutput.parse_message(frame(body)) == (transactional, LSN(77), "walrelay", b"\0\xff{}")


def test_a_row_has_text_binary_null_and_empty_values() -> None:
    body = server.insert(1, [b"text", None, b"", b"\0\xff"], kind=b"t")
    assert row(frame(body)) == [b"text", None, b"", b"\0\xff"]
    assert row(frame(server.insert(1, [b"\x01{}"], kind=b"b"))) == [b"\x01{}"]
    assert row(frame(server.insert(1, []))) == []


def test_a_row_has_only_the_columns_that_have_a_reader_as_they_read_them() -> None:
    body = frame(server.insert(1, [b"a", b"12", None, None, b"z"]))
    assert pgoutput.parse_row(body, [None, int, int, None, bytes.decode]) == [12, None, "z"]


def test_a_large_value_comes_whole() -> None:
    value = bytes(range(256)) * 8192
    assert row(frame(server.insert(1, [value, b"end"]))) == [value, b"end"]


def test_an_unchanged_toast_value_in_an_insert_is_a_protocol_error() -> None:
    """It occurs in updates only (guarantees A34)."""
    body = b"I" + pack(">I", 1) + b"N" + pack(">H", 1) + b"u"
    with pytest.raises(ProtocolError, match="kind 'u'"):
        row(frame(body))


def test_an_insert_without_a_new_row_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="without a new row"):
        row(frame(b"I" + pack(">I", 1) + b"K" + server.row([b"1"])))


def row(frame: bytes) -> list[bytes | None]:
    """All columns as they came."""
    _, columns = pgoutput.parse_insert(frame)
    return pgoutput.parse_row(frame, [bytes] * columns)


PARSERS = {
    "begin": (pgoutput.parse_begin, server.begin(300)),
    "commit": (pgoutput.parse_commit, server.commit(300, 356)),
    "relation": (pgoutput.parse_relation, server.relation(1, "public", "outbox", [("id", 25), ("payload", 25)])),
    "message": (pgoutput.parse_message, server.message("walrelay", b"{}")),
    "row": (row, server.insert(1, [b"a", None, b"bcd"])),
}


@pytest.mark.parametrize("name", PARSERS)
def test_a_message_cut_off_anywhere_is_a_protocol_error(name: str) -> None:
    parse, body = PARSERS[name]
    whole = frame(body)
    for size in range(BODY + 1, len(whole)):
        with pytest.raises(ProtocolError):
            parse(whole[:size])


@pytest.mark.parametrize("name", PARSERS)
def test_a_message_with_something_behind_it_is_a_protocol_error(name: str) -> None:
    parse, body = PARSERS[name]
    with pytest.raises(ProtocolError):
        parse(frame(body) + b"\0")
