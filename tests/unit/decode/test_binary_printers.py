"""Binary values as PostgreSQL prints them; tests/golden has the same against real servers."""

import uuid
from datetime import datetime, timedelta
from struct import pack

import pytest

from walrelay.decode import binary
from walrelay.decode.binary import PRINTERS

EPOCH = datetime(2000, 1, 1)
FIRST_MICROSECOND = (datetime(1, 1, 1) - EPOCH) // timedelta(microseconds=1)


def timestamp(moment: datetime) -> bytes:
    return pack(">q", (moment - EPOCH) // timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("oid", "value", "text"),
    [
        (binary.BOOL, b"\1", "t"),
        (binary.BOOL, b"\0", "f"),
        (binary.INT2, pack(">h", -32768), "-32768"),
        (binary.INT4, pack(">i", 2147483647), "2147483647"),
        (binary.INT8, pack(">q", -(2**63)), "-9223372036854775808"),
        (binary.INT8, pack(">q", 0), "0"),
        (binary.BYTEA, b"\0\xff", r"\x00ff"),
        (binary.BYTEA, b"", r"\x"),
        (binary.TEXT, "é".encode(), "é"),
        (binary.TEXT, b"caf\xe9", "caf\udce9"),
        (binary.VARCHAR, b"", ""),
        (binary.BPCHAR, b"ab  ", "ab  "),
        (binary.NAME, b"n", "n"),
        (binary.JSON, b'{"a":  1}', '{"a":  1}'),
        (binary.JSONB, b'\1{"a": 1}', '{"a": 1}'),
        (
            binary.UUID,
            uuid.UUID("00112233-4455-6677-8899-aabbccddeeff").bytes,
            "00112233-4455-6677-8899-aabbccddeeff",
        ),
    ],
)
def test_a_value_is_printed_as_postgresql_does(oid: int, value: bytes, text: str) -> None:
    assert PRINTERS[oid](value) == text


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
    assert PRINTERS[binary.TIMESTAMP](timestamp(moment)) == text
    assert PRINTERS[binary.TIMESTAMPTZ](timestamp(moment)) == f"{text}+00"


@pytest.mark.parametrize("oid", [binary.TIMESTAMP, binary.TIMESTAMPTZ])
def test_infinity_has_no_zone(oid: int) -> None:
    assert PRINTERS[oid](pack(">q", 2**63 - 1)) == "infinity"
    assert PRINTERS[oid](pack(">q", -(2**63))) == "-infinity"


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
    assert PRINTERS[binary.TIMESTAMP](pack(">q", microseconds)) == text


@pytest.mark.parametrize("oid", [oid for oid in PRINTERS if oid in (16, 20, 21, 23, 1114, 1184, 2950, 3802)])
@pytest.mark.parametrize("value", [b"", b"\2", b"\0" * 3, b"\0" * 17])
def test_a_value_of_another_size_is_a_protocol_error(oid: int, value: bytes) -> None:
    with pytest.raises(ValueError):
        PRINTERS[oid](value)
