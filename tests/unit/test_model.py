"""The values between the stages."""

from walrelay.lsn import LSN, ZERO
from walrelay.model import Counting, OutboxRecord, Position, System


def test_a_position_is_a_pg_lsn_and_an_ordinal() -> None:
    fields = (0, "7", None, None, None, None, None, None, None, None)
    assert OutboxRecord(LSN.parse("16/B374D848"), 3, *fields).position == "16/B374D848:3"


def test_a_position_is_read_as_it_was_kept_also_by_a_version_that_said_less() -> None:
    counting = Counting("pgoutput", "walrelay", "public.outbox", None)
    position = Position(System("7301", 2, LSN(8)), "walrelay", LSN(16), LSN(32), 5, 7, counting)
    assert Position.of_json(position.as_json()) == position
    whole = position._replace(commit_lsn=ZERO, ordinal=0, counted=None)
    assert b"counted" not in whole.as_json()
    assert Position.of_json(whole.as_json()) == whole
    earlier = b"""{"system": {"identifier": "7301", "timeline": 2}, "slot": "walrelay", "lsn": "0/10",
        "commit_lsn": "0/20", "ordinal": 5, "xmin": 7}"""
    assert Position.of_json(earlier) == position._replace(system=System("7301", 2), counted=None)
