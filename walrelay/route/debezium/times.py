"""Dates, times and intervals as PostgreSQL prints them, and as Debezium's connector counts or prints them."""

import re
from collections.abc import Callable
from datetime import date
from typing import Literal

from walrelay.route.debezium.connect import Schema, Value, iso_day
from walrelay.route.debezium.literals import told

TimeMode = Literal["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"]
IntervalMode = Literal["numeric", "string"]
Reading = tuple[Schema, Callable[[str], Value]]
"""What a column becomes, and how its text is read; ValueError for what has no counterpart."""

DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ = 1082, 1083, 1114, 1184, 1186, 1266

_MOMENT = re.compile(
    r"(?:(\d{4,})-(\d\d)-(\d\d))?[ ]?(?:(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:[+]00)?([ ]BC)?", re.ASCII
)
_WITH_ZONE = re.compile(r"(\d\d:\d\d:\d\d(?:\.\d+)?)([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?", re.ASCII)
_INTERVAL = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?"
    r"(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?",
    re.ASCII,
)
_ERA = 146_097  # days of 400 years
_SECOND = 1_000_000  # microseconds
_DAY = 86_400 * _SECOND
_EPOCH = date(1970, 1, 1).toordinal()
_MONTH = 365.25 / 12  # days, as Debezium has it
_LONG, _INT = 2**63, 2**31


def time_reading(oid: int, modifier: int, mode: TimeMode) -> Reading:
    """Of a column of the type DATE, TIME, TIMESTAMP, TIMESTAMPTZ or TIMETZ."""
    digits = 6 if modifier < 0 else modifier
    match oid:
        case 1266:
            return _named("string", "ZonedTime"), _zoned_time
        case 1184:
            return _named("string", "ZonedTimestamp"), lambda text: _zoned(text, digits)
        case 1082 if mode == "connect":
            return _of_connect("int32", "Date"), lambda text: microseconds(text) // _DAY
        case 1082 if mode == "isostring":
            return _named("string", "IsoDate"), lambda text: iso_day(microseconds(text) // _DAY) + "Z"
        case 1082:
            return _named("int32", "Date"), lambda text: microseconds(text) // _DAY
    name = "Time" if oid == TIME else "Timestamp"
    match mode:
        case "connect":
            kind = "int32" if oid == TIME else "int64"
            return _of_connect(kind, name), lambda text: microseconds(text) // 1000
        case "isostring" if oid == TIME:
            return _named("string", "IsoTime"), lambda text: f"{_iso_time(microseconds(text) % _DAY)}Z"
        case "isostring":
            return _named("string", "IsoTimestamp"), _iso_timestamp
        case "nanoseconds":
            return _named("int64", f"Nano{name}"), _nanoseconds
    in_milliseconds = mode == "adaptive" or (mode == "adaptive_time_microseconds" and oid == TIMESTAMP)
    if in_milliseconds and digits <= 3:
        kind = "int32" if oid == TIME else "int64"
        return _named(kind, name), lambda text: microseconds(text) // 1000
    return _named("int64", f"Micro{name}"), microseconds


def interval_reading(mode: IntervalMode) -> Reading:
    if mode == "string":
        return _named("string", "Interval"), _iso_interval
    return _named("int64", "MicroDuration"), _duration


def in_list(oid: int, text: str) -> str:
    """An item of a list, which Debezium reads through classes of Java that know less; ValueError where it is wrong."""
    match oid:
        case 1083:
            return text.replace("24:", "00:")[: len("00:00:00.000")]
        case 1266:
            return re.sub(r"\.\d+", "", text)
        case 1114 if text.endswith("BC") or (text < "1582-10-15" and text[4] == "-"):
            raise ValueError(f"{told(text)} in a list is before 1582-10-15, where Debezium's calendar is another")
    return text


def microseconds(text: str) -> int:
    """Since 1970-01-01, or since midnight where there is no date."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{told(text)} is no moment")
    year, month, day, hour, minute, second, fraction, bc = match.groups()
    days = 0
    if year:
        astronomical = 1 - int(year) if bc else int(year)
        era, rest = divmod(astronomical - 1, 400)  # Python knows the years 1 to 9999 only
        days = date(rest + 1, int(month), int(day)).toordinal() - _EPOCH + era * _ERA
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    return days * _DAY + seconds * _SECOND + int((fraction or "").ljust(6, "0"))


def _named(kind: str, name: str) -> Schema:
    return Schema(kind, name=f"io.debezium.time.{name}", version=1)


def _of_connect(kind: str, name: str) -> Schema:
    return Schema(kind, name=f"org.apache.kafka.connect.data.{name}", version=1)


def _nanoseconds(text: str) -> int:
    found = microseconds(text) * 1000
    if not -_LONG <= found < _LONG:
        raise ValueError(f"{told(text)} has no nanoseconds: they end in the years 1677 and 2262")
    return found


def _zoned(text: str, digits: int) -> str:
    """ISO 8601 in UTC, with as many decimals as the type has."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return text  # infinity
    fraction = match[7] or ""
    decimals = f".{fraction.ljust(6, '0')[:digits]}" if digits else ""
    return f"{iso_day(microseconds(text) // _DAY)}T{match[4]}:{match[5]}:{match[6]}{decimals}Z"


def _zoned_time(text: str) -> str:
    match = _WITH_ZONE.fullmatch(text)
    if match is None:
        raise ValueError(f"{told(text)} is no time with a zone")
    offset = (int(match[3]) * 3600 + int(match[4] or 0) * 60 + int(match[5] or 0)) * _SECOND
    local = microseconds(match[1])
    return f"{_iso_time((local - offset if match[2] == '+' else local + offset) % _DAY)}Z"


def _iso_time(of_day: int) -> str:
    """With seconds, and the decimals that are needed."""
    seconds, fraction = divmod(of_day, _SECOND)
    decimals = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{decimals}"


def _iso_timestamp(text: str) -> str:
    days, of_day = divmod(microseconds(text), _DAY)
    return f"{iso_day(days)}T{_iso_time(of_day)}Z"


def _parts(text: str) -> tuple[int, int, int, int, int, int]:
    """Years, months, days, hours, minutes, and microseconds below a minute, each with its sign."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{told(text)} is no interval")
    years, months, days = (int(part or 0) for part in match.groups()[:3])
    sign = -1 if match[4] == "-" else 1
    hours, minutes, seconds = (sign * int(part or 0) for part in match.groups()[4:7])
    if abs(hours) >= _INT:
        raise ValueError(f"{told(text)} has more hours than Debezium can read")
    return years, months, days, hours, minutes, seconds * _SECOND + sign * int((match[8] or "").ljust(6, "0"))


def _duration(text: str) -> int:
    """In microseconds, with months of 30.4375 days: reckoned with floating point, as there."""
    years, months, days, hours, minutes, rest = _parts(text)
    second = int(rest / _SECOND)
    seconds = second + (rest - second * _SECOND) / 1e6
    all_days = (years * 12 + months) * _MONTH + days
    found = int((((all_days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1e6)
    return max(-_LONG, min(found, _LONG - 1))


def _iso_interval(text: str) -> str:
    years, months, days, hours, minutes, rest = _parts(text)
    whole, fraction = divmod(abs(rest), _SECOND)
    decimals = f".{fraction:06}".rstrip("0") if fraction else ""
    seconds = f"{'-' if rest < 0 else ''}{whole}{decimals}"
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds}S"
