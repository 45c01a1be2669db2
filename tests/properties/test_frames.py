"""Keepalives and status updates survive the wire."""

from struct import unpack

from hypothesis import given
from hypothesis import strategies as st

from walrelay.errors import ProtocolError
from walrelay.wire.frames import keepalive, parse_keepalive, status_update

positions = st.integers(0, 2**64 - 1)
times = st.integers(0, 2**62)


@given(positions, st.booleans(), times)
def test_a_keepalive_is_read_as_it_was_written(wal_end: int, reply: bool, sent_at: int) -> None:
    assert parse_keepalive(keepalive(wal_end, reply_requested=reply, sent_at=sent_at)) == (wal_end, sent_at, reply)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_keepalive_or_a_protocol_error(rest: bytes) -> None:
    try:
        parse_keepalive(b"k" + rest)
    except ProtocolError:
        assert len(rest) != 17


@given(positions, positions, times, st.booleans())
def test_a_status_update_is_read_by_the_server_as_it_was_meant(write: int, flush: int, now: int, ping: bool) -> None:
    kind, *read = unpack(">cQQQqB", status_update(write=write, flush=flush, sent_at=now, reply_requested=ping))
    assert (kind, *read) == (b"r", write, flush, flush, now - 946_684_800_000_000, ping)
