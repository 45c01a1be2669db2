"""The values between the stages."""

import pytest

from walrelay.lsn import LSN, ZERO
from walrelay.model import Counting, OutboxRecord, RecordPosition, RelayPosition, System


def test_a_position_is_a_pg_lsn_and_an_ordinal() -> None:
    fields = (0, "7", None, None, None, None, None, None, None, None)
    assert OutboxRecord(LSN.parse("16/B374D848"), 3, *fields).position == "16/B374D848:3"


def test_the_position_of_a_record_is_read_as_it_is_written() -> None:
    for text in ("16/B374D848:3", "0/1:0", "16/B374D848"):
        assert str(RecordPosition.parse(text)) == text
    for text in ("", ":1", "16/B374D848:", "16/B374D848:x", "B374D848:1"):
        with pytest.raises(ValueError):
            RecordPosition.parse(text)


def test_positions_of_headers_are_in_the_order_of_commit() -> None:
    texts = ["0/9:0", "0/9:10", "0/10:2", "1/0"]
    found = [RecordPosition.of_header(text) for text in texts]
    assert found == sorted(each for each in found if each is not None)
    assert RecordPosition.of_header("1/0") == (LSN.parse("1/0"), 0)
    assert RecordPosition.of_header("of another producer") is None


def test_a_position_is_read_as_it_was_kept_also_by_a_version_that_said_less() -> None:
    counting = Counting("pgoutput", "walrelay", "public.outbox", None)
    position = RelayPosition(System("7301", 2, LSN(8)), "walrelay", LSN(16), LSN(32), 5, 7, counting)
    assert RelayPosition.of_json(position.as_json()) == position
    whole = position._replace(commit_lsn=ZERO, ordinal=0, counted=None)
    assert b"counted" not in whole.as_json()
    assert RelayPosition.of_json(whole.as_json()) == whole
    earlier = b"""{"system": {"identifier": "7301", "timeline": 2}, "slot": "walrelay", "lsn": "0/10",
        "commit_lsn": "0/20", "ordinal": 5, "xmin": 7}"""
    assert RelayPosition.of_json(earlier) == position._replace(system=System("7301", 2), counted=None)
