"""Column values to records: binary values as PostgreSQL prints them, and rows read from the table."""

import uuid
from datetime import datetime, timedelta
from struct import pack

import pytest

from walrelay.decode import records
from walrelay.decode.contract import Columns, OutboxLayout
from walrelay.decode.records import BINARY_PRINTERS, RowDecoder
from walrelay.errors import Undecodable
from walrelay.lsn import LSN

EPOCH = datetime(2000, 1, 1)
FIRST_MICROSECOND = (datetime(1, 1, 1) - EPOCH) // timedelta(microseconds=1)


def timestamp(moment: datetime) -> bytes:
    return pack(">q", (moment - EPOCH) // timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("oid", "value", "text"),
    [
        (records.BOOL, b"\1", "t"),
        (records.BOOL, b"\0", "f"),
        (records.INT2, pack(">h", -32768), "-32768"),
        (records.INT4, pack(">i", 2147483647), "2147483647"),
        (records.INT8, pack(">q", -(2**63)), "-9223372036854775808"),
        (records.INT8, pack(">q", 0), "0"),
        (records.BYTEA, b"\0\xff", r"\x00ff"),
        (records.BYTEA, b"", r"\x"),
        (records.TEXT, "é".encode(), "é"),
        (records.TEXT, b"caf\xe9", "caf\udce9"),
        (records.VARCHAR, b"", ""),
        (records.BPCHAR, b"ab  ", "ab  "),
        (records.NAME, b"n", "n"),
        (records.JSON, b'{"a":  1}', '{"a":  1}'),
        (records.JSONB, b'\1{"a": 1}', '{"a": 1}'),
        (
            records.UUID,
            uuid.UUID("00112233-4455-6677-8899-aabbccddeeff").bytes,
            "00112233-4455-6677-8899-aabbccddeeff",
        ),
    ],
)
def test_a_value_is_printed_as_postgresql_does(oid: int, value: bytes, text: str) -> None:
    assert BINARY_PRINTERS[oid](value) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (EPOCH, "2000-01-01 00:00:00"),
        (datetime(2026, 11, 21, 9, 58, 54, 956040), "2026-11-21 09:58:54.95604"),
        (datetime(2026, 11, 21, 9, 58, 50, 500000), "2026-11-21 09:58:50.5"),
        (datetime(1999, 12, 31, 23, 59, 59, 1), "1999-12-31 23:59:59.000001"),
        (datetime(2026, 1, 1, 10, 20, 30), "2026-01-01 10:20:30"),
        (datetime(1, 1, 1), "0001-01-01 00:00:00"),
        (datetime(44, 3, 15, 12), "0044-03-15 12:00:00"),
        (datetime(9999, 12, 31, 23, 59, 59, 999999), "9999-12-31 23:59:59.999999"),
    ],
)
def test_timestamps_have_as_many_decimals_as_they_need_and_utc_for_a_zone(moment: datetime, text: str) -> None:
    assert BINARY_PRINTERS[records.TIMESTAMP](timestamp(moment)) == text
    assert BINARY_PRINTERS[records.TIMESTAMPTZ](timestamp(moment)) == f"{text}+00"


@pytest.mark.parametrize("oid", [records.TIMESTAMP, records.TIMESTAMPTZ])
def test_infinity_has_no_zone(oid: int) -> None:
    assert BINARY_PRINTERS[oid](pack(">q", 2**63 - 1)) == "infinity"
    assert BINARY_PRINTERS[oid](pack(">q", -(2**63))) == "-infinity"


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (FIRST_MICROSECOND - 1, "0001-12-31 23:59:59.999999 BC"),
        (-211_813_488_000_000_000, "4714-11-24 00:00:00 BC"),
        (252_455_616_000_000_000, "10000-01-01 00:00:00"),
        (9_223_371_331_199_999_999, "294276-12-31 23:59:59.999999"),
    ],
)
def test_a_year_that_python_does_not_know_is_printed_as_postgresql_does(microseconds: int, text: str) -> None:
    assert BINARY_PRINTERS[records.TIMESTAMP](pack(">q", microseconds)) == text


@pytest.mark.parametrize("oid", [oid for oid in BINARY_PRINTERS if oid in (16, 20, 21, 23, 1114, 1184, 2950, 3802)])
@pytest.mark.parametrize("value", [b"", b"\2", b"\0" * 3, b"\0" * 17])
def test_a_value_of_another_size_is_a_protocol_error(oid: int, value: bytes) -> None:
    with pytest.raises(ValueError):
        BINARY_PRINTERS[oid](value)


POINT = LSN.parse("0/1000")
TYPES = {"id": 23, "payload": 17, "headers": 3802, "kind": 25}
OUTBOX = OutboxLayout(
    columns=Columns(aggregate_type="kind", aggregate_id=None, type="kind", topic=None, tenant_id=None, created_at=None)
)


def test_values_become_the_roles_whose_columns_they_are() -> None:
    decoder = RowDecoder(OUTBOX, TYPES, POINT)
    assert decoder.columns == ["id", "kind", "kind", "payload", "headers"]
    record = decoder.decode([b"7", b"order", b"order", b"\\x00ff", b'{"a": 1}'], 5)
    assert (record.id, record.aggregate_type, record.type) == ("7", "order", "order")
    assert (record.payload, record.headers, record.aggregate_id) == (b"\x00\xff", b'{"a": 1}', None)
    assert record.committed_at == 5


def test_rows_are_numbered_below_the_consistent_point_where_no_commit_begins_or_ends() -> None:
    decoder = RowDecoder(OUTBOX, TYPES, POINT)
    records = [decoder.decode([b"7", None, None, None, None], 0) for _ in range(3)]
    assert [record.position for record in records] == ["0/FFE:0", "0/FFE:1", "0/FFE:2"]
    assert all(record.commit_lsn % 8 not in (0, 7) for record in records)


def test_a_row_without_an_id_and_a_role_without_its_column_are_refused_as_in_the_stream() -> None:
    with pytest.raises(Undecodable, match="has no id"):
        RowDecoder(OUTBOX, TYPES, POINT).decode([None] * 5, 0)
    with pytest.raises(Undecodable, match="no column 'headers'"):
        RowDecoder(OUTBOX, {"id": 23, "payload": 17, "kind": 25}, POINT)
