"""Binary column values to the text that PostgreSQL would print, for the types an outbox column usually has.

ValueError for what is no such value.

A type that is not here is not guessed at: such a table is read in text mode. Every type here has a send function,
so in binary mode the server never falls back to text for it (pgoutput: logicalrep_write_tuple).
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from walrelay.decode.records import as_text

BOOL, BYTEA, NAME, INT8, INT2, INT4, TEXT, JSON = 16, 17, 19, 20, 21, 23, 25, 114
BPCHAR, VARCHAR, TIMESTAMP, TIMESTAMPTZ, UUID, JSONB = 1042, 1043, 1114, 1184, 2950, 3802

_EPOCH = datetime(2000, 1, 1)
_DAY = 86_400_000_000  # microseconds
_ERA = 146_097  # days of 400 years


def _jsonb(value: bytes) -> str:
    return as_text(json_text(value))


def json_text(value: bytes) -> bytes:
    """The text of a jsonb value: what follows its version, of which only 1 is known."""
    if not value.startswith(b"\x01"):
        raise ValueError(f"jsonb of version {value[:1]!r}, only 1 is known")
    return value[1:]


def _uuid(value: bytes) -> str:
    if len(value) != 16:
        raise ValueError(f"a uuid of {len(value)} bytes")
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _integer(size: int) -> Callable[[bytes], str]:
    def text(value: bytes) -> str:
        if len(value) != size:
            raise ValueError(f"an int{size} of {len(value)} bytes")
        return str(int.from_bytes(value, signed=True))

    return text


def _bool(value: bytes) -> str:
    if value not in (b"\x00", b"\x01"):
        raise ValueError(f"a boolean that is {value!r}")
    return "t" if value == b"\x01" else "f"


def _timestamp(zone: str) -> Callable[[bytes], str]:
    def text(value: bytes) -> str:
        if len(value) != 8:
            raise ValueError(f"a timestamp of {len(value)} bytes")
        microseconds = int.from_bytes(value, signed=True)
        if microseconds in (2**63 - 1, -(2**63)):
            return "infinity" if microseconds > 0 else "-infinity"
        days, rest = divmod(microseconds, _DAY)
        era, day = divmod(days, _ERA)  # Python knows the years 1 to 9999 only; 400 years later the calendar is the same
        moment = _EPOCH + timedelta(days=day, microseconds=rest)
        year = moment.year + 400 * era
        printed = f"{year if year > 0 else 1 - year:04}{moment.isoformat(' ')[4:]}"
        return (printed.rstrip("0") if moment.microsecond else printed) + zone + ("" if year > 0 else " BC")

    return text


PRINTERS: dict[int, Callable[[bytes], str]] = {
    BOOL: _bool,
    BYTEA: lambda value: "\\x" + value.hex(),
    NAME: as_text,
    INT8: _integer(8),
    INT2: _integer(2),
    INT4: _integer(4),
    TEXT: as_text,
    JSON: as_text,
    BPCHAR: as_text,
    VARCHAR: as_text,
    TIMESTAMP: _timestamp(""),
    TIMESTAMPTZ: _timestamp("+00"),  # the walsender's TimeZone is forced to UTC
    UUID: _uuid,
    JSONB: _jsonb,
}
"""type OID -> printer. OIDs of built-in types are part of PostgreSQL's interface and never change."""
