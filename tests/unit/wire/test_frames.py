"""Frames to values and back, byte for byte as the manual has them."""

from struct import pack

import pytest

from walrelay.errors import ProtocolError
from walrelay.lsn import LSN
from walrelay.wire.frames import BODY, KEEPALIVE, XLOGDATA, keepalive, parse_keepalive, status_update, xlogdata

EPOCH_US = 946_684_800_000_000


def test_a_keepalive_has_the_end_of_wal_the_clock_and_whether_a_reply_is_wanted() -> None:
    frame = b"k" + pack(">QqB", 0x16_B374_D848, 1_000_000, 1)
    assert parse_keepalive(frame) == (LSN(0x16_B374_D848), EPOCH_US + 1_000_000, True)
    assert parse_keepalive(keepalive(7)) == (LSN(7), EPOCH_US, False)
    assert keepalive(0x16_B374_D848, reply_requested=True, sent_at=EPOCH_US + 1_000_000) == frame


@pytest.mark.parametrize("frame", [b"k", keepalive(1)[:-1], keepalive(1) + b"\0"])
def test_a_keepalive_of_another_size_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="a keepalive has 18 bytes"):
        parse_keepalive(frame)


def test_a_clock_before_the_year_2000_is_a_clock() -> None:
    assert parse_keepalive(b"k" + pack(">QqB", 1, -1, 0)).sent_at == EPOCH_US - 1


def test_xlogdata_has_its_message_behind_a_header_of_fixed_size() -> None:
    frame = xlogdata(1, 2, b"hello", EPOCH_US + 3)
    assert frame == b"w" + pack(">QQq", 1, 2, 3) + b"hello"
    assert (frame[0], frame[BODY:]) == (XLOGDATA, b"hello")
    assert keepalive(1)[0] == KEEPALIVE


def test_a_status_update_reports_apply_equal_to_flush() -> None:
    update = status_update(write=300, flush=200, sent_at=EPOCH_US + 5)
    assert update == b"r" + pack(">QQQqB", 300, 200, 200, 5, 0)
    assert len(update) == 34


def test_a_status_update_may_say_no_news_and_ask_for_an_answer() -> None:
    update = status_update(write=300, flush=0, sent_at=EPOCH_US, reply_requested=True)
    assert update == b"r" + pack(">QQQqB", 300, 0, 0, 0, 1)
