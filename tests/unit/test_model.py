"""The values between the stages."""

from walrelay.lsn import LSN
from walrelay.model import OutboxRecord


def test_a_position_is_a_pg_lsn_and_an_ordinal() -> None:
    fields = (0, "7", None, None, None, None, None, None, None, None)
    assert OutboxRecord(LSN.parse("16/B374D848"), 3, *fields).position == "16/B374D848:3"
