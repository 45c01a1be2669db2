"""The frames of streaming replication, as the manual's protocol-replication defines them: values to bytes and back.

The server sends XLogData (`w`, start, end, clock, then the output plugin's message) and keepalives (`k`, end of
WAL, clock, reply requested); the client sends standby status updates (`r`). A frame is one CopyData payload.
Clocks are microseconds since 2000-01-01 UTC.
"""

from struct import Struct
from typing import NamedTuple

from walrelay.errors import ProtocolError
from walrelay.lsn import LSN

XLOGDATA = ord("w")
KEEPALIVE = ord("k")
BODY = 25  # where the output plugin's message begins in an XLogData frame

POSTGRES_EPOCH_US = 946_684_800_000_000  # 2000-01-01 in microseconds since 1970-01-01

_XLOGDATA = Struct(">cQQq")
_KEEPALIVE = Struct(">cQqB")
_STATUS = Struct(">cQQQqB")


class Keepalive(NamedTuple):
    """`wal_end`: everything before it was decoded and, if it concerned this slot, sent."""

    wal_end: LSN
    sent_at: int
    reply_requested: bool


def parse_keepalive(frame: bytes) -> Keepalive:
    """The keepalive in `frame`, whose first byte is `k`."""
    if len(frame) != _KEEPALIVE.size:
        raise ProtocolError(f"a keepalive has {_KEEPALIVE.size} bytes, this one has {len(frame)}")
    _, wal_end, clock, reply = _KEEPALIVE.unpack(frame)
    return Keepalive(LSN(wal_end), clock + POSTGRES_EPOCH_US, reply != 0)


def xlogdata(start: int, end: int, body: bytes, sent_at: int = POSTGRES_EPOCH_US) -> bytes:
    """An XLogData frame around the output plugin's message `body`, as the server would send it."""
    return _XLOGDATA.pack(b"w", start, end, sent_at - POSTGRES_EPOCH_US) + body


def keepalive(wal_end: int, *, reply_requested: bool = False, sent_at: int = POSTGRES_EPOCH_US) -> bytes:
    """A keepalive frame, as the server would send it."""
    return _KEEPALIVE.pack(b"k", wal_end, sent_at - POSTGRES_EPOCH_US, reply_requested)


def status_update(*, write: int, flush: int, sent_at: int, reply_requested: bool = False) -> bytes:
    """A standby status update; `apply` is reported equal to `flush`, `flush` 0 says "no news" (guarantees A5)."""
    return _STATUS.pack(b"r", write, flush, flush, sent_at - POSTGRES_EPOCH_US, reply_requested)
