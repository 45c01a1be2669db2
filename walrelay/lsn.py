"""A position in the write-ahead log, as PostgreSQL counts it: bytes since the beginning."""

import re
from typing import Self

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


class LSN(int):
    """A log sequence number: an int for arithmetic, `16/B374D848` for people.

    A position the server may forget up to is "the last byte + 1" (protocol-replication, standby status
    update); a commit's `end_lsn` already is that, so nothing in walrelay ever adds one.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads PostgreSQL's `X/X`; ValueError for anything else."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not an LSN: {text!r} (expected two hexadecimal numbers, as in 16/B374D848)")
        return cls(int(match[1], 16) << 32 | int(match[2], 16))

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        return f"LSN('{self}')"


ZERO = LSN(0)  # PostgreSQL's InvalidXLogRecPtr: "no position", never a place in the log
