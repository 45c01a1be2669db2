"""Whether a position lies in the history of a server's WAL."""

import pytest

from walrelay.lsn import LSN
from walrelay.model import RelayPosition, System
from walrelay.postgres.history import History, timeline_ends

SERVER = History(System("7", 3), LSN.parse("0/9000"), {1: LSN.parse("0/3000"), 2: LSN.parse("0/6000")})


def test_a_timeline_history_file_says_where_each_timeline_was_left() -> None:
    content = "1\t0/3000\tno recovery target specified\n\n# a comment\n2\t0/6000\tbefore 2026-01-01 10:00:00+00\n"
    assert timeline_ends(content) == SERVER.left_at
    assert timeline_ends("") == {}


@pytest.mark.parametrize(
    ("system", "lsn", "fault"),
    [
        (System("7", 3), "0/9000", ""),
        (System("7", 3), "0/9001", "ahead"),
        (System("7", 2), "0/6000", ""),
        (System("7", 2), "0/6001", "ahead"),
        (System("7", 1), "0/3001", "ahead"),
        (System("7", 4), "0/1000", "not in the history"),
        (System("7", 3, LSN.parse("0/6000")), "0/9000", ""),
        (System("7", 2, LSN.parse("0/3000")), "0/6000", ""),
        (System("7", 3, LSN.parse("0/5000")), "0/9000", "timeline 3 (from 0/5000 on), which is not in the history"),
        (System("7", 2, LSN.parse("0/2000")), "0/2500", "timeline 2 (from 0/2000 on), which is not in the history"),
        (System("8", 3), "0/1000", "another system"),
    ],
)
def test_a_position_behind_the_end_of_a_timeline_of_this_server_counts(system: System, lsn: str, fault: str) -> None:
    found = SERVER.fault(RelayPosition(system, "walrelay", LSN.parse(lsn), xmin=5))
    assert fault in found
    assert bool(found) == bool(fault)


def test_the_last_promotion_is_where_numbers_may_have_been_given_out_anew() -> None:
    assert SERVER.branch == LSN.parse("0/6000")
    assert History(System("7", 1), LSN.parse("0/9000"), {}).branch is None
