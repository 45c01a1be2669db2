"""Where a stream begins, given the slot's position, the relay's own and the server's history."""

import pytest

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Position, System
from walrelay.source.catalog import Slot
from walrelay.source.start import Server, Start, branches, start_of

HERE, PROMOTED = System("7301", 1), System("7301", 2)
SERVER = Server(HERE, LSN(1000), {})
STANDBY = Server(PROMOTED, LSN(1000), {1: LSN(300)})
SLOT = Slot("orders", "pgoutput", "db", None, LSN(50), LSN(100), "reserved", None, None, False, False)


def own(lsn: int, system: System = HERE, **rest: int) -> Position:
    return Position(system, "orders", LSN(lsn), LSN(rest.get("commit_lsn", 0)), rest.get("ordinal", 0))


def test_without_a_position_of_its_own_a_relay_starts_where_the_slot_stands() -> None:
    """Section D: D10, others started at the server's current position."""
    assert start_of(SLOT, None, SERVER) == Start(LSN(100))


def test_its_own_position_is_better_than_the_slots_which_a_crash_sets_back() -> None:
    assert start_of(SLOT, own(200), SERVER) == Start(LSN(200))
    assert start_of(SLOT, own(100), SERVER) == Start(LSN(100))


def test_what_was_published_of_a_transaction_before_is_not_published_again() -> None:
    assert start_of(SLOT, own(200, commit_lsn=210, ordinal=7), SERVER) == Start(LSN(200), LSN(210), 7)


def test_a_slot_that_went_on_without_us_is_refused() -> None:
    """Section D: D9 and pitfall A11: somebody consumed it, or it was made anew, and events are missing."""
    with pytest.raises(Fatal, match="stands at 0/64, but walrelay confirmed only 0/63"):
        start_of(SLOT, own(99), SERVER)


def test_a_slot_without_a_position_starts_at_zero_which_is_the_slots_own() -> None:
    assert start_of(SLOT._replace(confirmed_flush_lsn=None), None, SERVER) == Start(LSN(0))


def test_a_position_of_another_system_is_refused() -> None:
    with pytest.raises(Fatal, match="is of the system 9, but this server is 7301"):
        start_of(SLOT, own(200, System("9", 1)), SERVER)


def test_a_position_before_the_branch_counts_on_a_promoted_standby() -> None:
    assert start_of(SLOT, own(300), STANDBY) == Start(LSN(300))
    with pytest.raises(Fatal, match="confirmed only"):
        start_of(SLOT, own(99), STANDBY)


def test_past_the_branch_the_stream_begins_at_the_branch_and_says_that_too_much_was_published() -> None:
    """What is written there on the new timeline has another meaning (PITFALLS A13)."""
    start = start_of(SLOT, own(301), STANDBY)
    assert start.lsn == 300
    assert "consumers have seen what the database has not" in start.notice


def test_half_a_transaction_past_the_branch_does_not_count() -> None:
    start = start_of(SLOT, own(290, commit_lsn=310, ordinal=4), STANDBY)
    assert (start.lsn, start.commit_lsn, start.ordinal) == (290, 0, 0)
    assert start.notice


@pytest.mark.parametrize("timeline", [3, 2])
def test_a_timeline_that_is_not_in_the_servers_past_is_refused(timeline: int) -> None:
    """An old primary that came back, or a backup."""
    with pytest.raises(Fatal, match=f"is of timeline {timeline}, which is not in the history"):
        start_of(SLOT, own(200, System("7301", timeline)), SERVER)


def test_a_server_that_lost_wal_is_refused() -> None:
    """Restored from a copy: it will write other things where ours were."""
    with pytest.raises(Fatal, match="WAL ends at 0/3E8"):
        start_of(SLOT, own(1001), SERVER)


def test_a_history_file_tells_where_timelines_branched_off() -> None:
    text = "1\t0/3000060\tno recovery target specified\n\n# a comment\n2\t0/5000000\tbefore 2026-11-21\n"
    assert branches(text) == {1: LSN.parse("0/3000060"), 2: LSN.parse("0/5000000")}
