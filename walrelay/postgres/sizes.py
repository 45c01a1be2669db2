"""Sizes in the units of PostgreSQL's settings."""

import re

_UNITS = ("kB", "MB", "GB", "TB")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|bytes|kB|MB|GB|TB)?", re.IGNORECASE)


def size(count: int) -> str:
    """`count` bytes: `1.5 MB`."""
    value, unit = float(count), "bytes"
    for larger in _UNITS:
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def parse_size(text: str) -> int:
    """The bytes of `10GB`, `1.5 MB` or `1000`; ValueError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write 500MB or 10GB")
    units = ["", *(unit.lower() for unit in _UNITS)]
    unit = (match[2] or "").lower().replace("bytes", "")
    return int(float(match[1]) * 1024 ** units.index("" if unit == "b" else unit))
