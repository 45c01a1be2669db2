"""UUID version 7 (RFC 9562): it begins with the time, so that an index grows at its end."""

import os
import time
from uuid import UUID

_MILLISECOND = 1_000_000  # nanoseconds


def uuid7() -> UUID:
    """48 bits of Unix time in milliseconds, 12 bits of its fraction (the RFC's method 3), 62 random bits."""
    milliseconds, rest = divmod(time.time_ns(), _MILLISECOND)
    fraction = (rest << 12) // _MILLISECOND
    random = int.from_bytes(os.urandom(8)) >> 2
    return UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | random)
