"""Where a stream begins, given the slot's position, the relay's own and the server's history."""

from typing import Any

import pytest

from walrelay.errors import Fatal, Retryable
from walrelay.lsn import LSN
from walrelay.model import RelayPosition, System
from walrelay.postgres.catalog import Slot
from walrelay.postgres.history import timeline_ends
from walrelay.source.start import OwnPosition, Server, Start, start_of

HERE, PROMOTED = System("7301", 1), System("7301", 2)
SERVER = Server(HERE, LSN(1000), {})
STANDBY = Server(PROMOTED, LSN(1000), {1: LSN(300)})
SLOT = Slot("orders", "pgoutput", "db", None, LSN(50), LSN(100), "reserved", None, None, False, False)


def own(lsn: int, system: System = HERE, **rest: int) -> OwnPosition:
    """In a place that proves what it says."""
    return OwnPosition("file", position(lsn, system, **rest))


def row(lsn: int, system: System = HERE) -> OwnPosition:
    return OwnPosition("table", position(lsn, system, xmin=700))


def remembered(lsn: int, system: System = HERE) -> OwnPosition:
    return OwnPosition("memory", position(lsn, system))


def position(lsn: int, system: System, **rest: int) -> RelayPosition:
    of_transaction = LSN(rest.get("commit_lsn", 0)), rest.get("ordinal", 0)
    return RelayPosition(system, "orders", LSN(lsn), *of_transaction, rest.get("xmin", 0))


def test_without_a_position_of_its_own_a_relay_starts_where_the_slot_stands() -> None:
    """Section D: D10, others started at the server's current position."""
    assert start_of(SLOT, None, SERVER) == Start(LSN(100))


def test_its_own_position_is_better_than_the_slots_which_a_crash_sets_back() -> None:
    assert start_of(SLOT, own(200), SERVER) == Start(LSN(200))
    assert start_of(SLOT, own(100), SERVER) == Start(LSN(100))


def test_what_was_published_of_a_transaction_before_is_not_published_again() -> None:
    assert start_of(SLOT, own(200, commit_lsn=210, ordinal=7), SERVER) == Start(LSN(200), LSN(210), 7)


def test_a_slot_that_went_on_without_us_is_refused() -> None:
    """Section D: D9 and guarantees A11: something else consumed it, or it was created again, and events are missing."""
    with pytest.raises(Fatal, match="is at 0/64, but walrelay confirmed only 0/63"):
        start_of(SLOT, own(99), SERVER)


def test_a_slot_without_a_position_starts_at_zero_which_is_the_slots_own() -> None:
    assert start_of(SLOT._replace(confirmed_flush_lsn=None), None, SERVER) == Start(LSN(0))


def test_a_position_of_another_system_is_refused() -> None:
    with pytest.raises(Fatal, match="is of the system 9, as the position file says, but this server is 7301"):
        start_of(SLOT, own(200, System("9", 1)), SERVER)


def test_a_position_before_the_branch_counts_on_a_promoted_standby() -> None:
    assert start_of(SLOT, own(300), STANDBY) == Start(LSN(300))
    with pytest.raises(Fatal, match="confirmed only"):
        start_of(SLOT, own(99), STANDBY)


def test_past_the_branch_the_stream_begins_at_the_branch_and_says_that_too_much_was_published() -> None:
    """What is written there on the new timeline has another meaning (guarantees A13)."""
    start = start_of(SLOT, own(301), STANDBY)
    assert start.lsn == 300
    assert "consumers have seen what the database has not" in start.notice


def test_half_a_transaction_past_the_branch_does_not_count() -> None:
    start = start_of(SLOT, own(290, commit_lsn=310, ordinal=4), STANDBY)
    assert (start.lsn, start.commit_lsn, start.ordinal) == (290, 0, 0)
    assert start.notice


def test_a_timeline_that_is_not_in_the_servers_past_says_nothing_and_the_slot_that_came_along_counts() -> None:
    """Two standbys were promoted one after the other, of which the second knew nothing of the first."""
    start = start_of(SLOT, own(200, PROMOTED), Server(System("7301", 3), LSN(1000), {1: LSN(150)}))
    assert start.lsn == 100
    assert "consumers have seen what it does not have" in start.notice


def test_a_timeline_that_is_not_in_the_servers_past_is_refused_where_the_slot_was_moved_since() -> None:
    with pytest.raises(Fatal, match="is of timeline 2, as the position file says, which is not in the history"):
        start_of(SLOT, own(200, PROMOTED), Server(System("7301", 3), LSN(1000), {1: LSN(99)}))


ELSEWHERE = System("7301", 2, LSN(250))  # branched off before STANDBY did


def test_a_timeline_of_the_servers_number_that_began_elsewhere_is_another_one() -> None:
    """Both standbys took the next number that they knew of."""
    for server in (STANDBY, Server(System("7301", 3), LSN(1000), {1: LSN(300), 2: LSN(900)})):
        start = start_of(SLOT, own(400, ELSEWHERE), server)
        assert start.lsn == 100
        assert "on timeline 2 (from 0/FA on), as the position file says" in start.notice
        assert start_of(SLOT, own(400, ELSEWHERE._replace(began=LSN(300))), server) == Start(LSN(400))
        assert start_of(SLOT, own(400, ELSEWHERE._replace(began=None)), server) == Start(LSN(400)), "an earlier version"
    unknown = Server(PROMOTED, LSN(1000), {})  # the history file is gone
    assert start_of(SLOT, own(400, ELSEWHERE), unknown) == Start(LSN(400))


def test_what_a_process_remembers_of_another_timeline_of_this_number_is_not_passed_over_here() -> None:
    """Another instance has moved the slot here, but not as far."""
    moved = SLOT._replace(confirmed_flush_lsn=LSN(350))
    assert start_of(moved, remembered(400, ELSEWHERE), STANDBY).lsn == 350
    with pytest.raises(Fatal, match="which is not in the history of this server's timeline 2"):
        start_of(moved, own(400, ELSEWHERE), STANDBY)


@pytest.mark.parametrize("place", ["memory", "file", "table", "topic"])
def test_an_old_primary_is_not_read_and_the_present_one_is_waited_for(place: Any) -> None:
    """A DSN may lead there for a moment while a failover is under way."""
    with pytest.raises(Retryable, match="this server is on timeline 1, but walrelay has read timeline 2"):
        start_of(SLOT, OwnPosition(place, position(200, PROMOTED)), SERVER)


def test_a_server_that_lost_wal_is_refused() -> None:
    """Restored from a copy: it will write other things where ours were."""
    with pytest.raises(Fatal, match="WAL ends at 0/3E8"):
        start_of(SLOT, own(1001), SERVER)


def test_a_slot_in_its_servers_future_is_refused_whatever_else_is_known() -> None:
    """A position of another server was confirmed to this one: up to there nothing would ever be published."""
    ahead = SLOT._replace(confirmed_flush_lsn=LSN(1001))
    for known in (None, remembered(1001), own(1001), row(1001)):
        with pytest.raises(Fatal, match="is at 0/3E9, but this server's WAL ends at 0/3E8") as caught:
            start_of(ahead, known, SERVER)
        assert "walrelay recover --replace" in caught.value.hint
    assert start_of(SLOT._replace(confirmed_flush_lsn=LSN(1000)), None, SERVER) == Start(LSN(1000))


def test_a_row_that_a_promoted_standby_had_not_received_yet_proves_nothing_against_the_slot_it_had() -> None:
    """The row's own WAL comes after the position that it tells of, and the slot is copied by another way."""
    start = start_of(SLOT, row(99), STANDBY)
    assert (start.lsn, start.xmin) == (100, 700)
    assert "the stream begins at the slot's position" in start.notice.lower()


def test_a_row_is_proof_against_a_slot_that_moved_after_the_promotion_or_on_the_rows_own_timeline() -> None:
    moved = SLOT._replace(confirmed_flush_lsn=LSN(301))
    with pytest.raises(Fatal, match=r"the row in walrelay\.positions says: something else moved it"):
        start_of(moved, row(99), STANDBY)
    with pytest.raises(Fatal, match=r"the row in walrelay\.positions says: something else moved it"):
        start_of(SLOT, row(99), SERVER)


def test_a_row_is_left_behind_by_each_of_several_promotions() -> None:
    """What the second primary kept can be missing on the third, as what the first kept."""
    third = Server(System("7301", 3), LSN(1000), {1: LSN(300), 2: LSN(500)})
    start = start_of(SLOT._replace(confirmed_flush_lsn=LSN(400)), row(290), third)
    assert start.lsn == 400


def test_each_refusal_says_which_evidence_it_has() -> None:
    with pytest.raises(Fatal, match="confirmed only 0/63, as the position file says") as caught:
        start_of(SLOT, own(99), SERVER)
    assert "position.keep: table or topic is shared" in caught.value.hint
    with pytest.raises(Fatal, match="as the record in the topic of positions says") as caught:
        start_of(SLOT, OwnPosition("topic", position(99, HERE)), SERVER)
    assert "Each instance" not in caught.value.hint


def test_what_a_process_remembers_saves_repetitions() -> None:
    assert start_of(SLOT, remembered(200), SERVER) == Start(LSN(200))
    assert start_of(SLOT, remembered(300), STANDBY) == Start(LSN(300))
    assert start_of(SLOT, remembered(301), STANDBY).lsn == 300


@pytest.mark.parametrize(
    ("own", "server", "says"),
    [
        (remembered(99), SERVER, "another instance led meanwhile"),
        (remembered(99), STANDBY, "another instance led meanwhile"),
        (remembered(1001), SERVER, "but this server's WAL ends at 0/3E8"),
        (remembered(200, System("7301", 2)), Server(System("7301", 3), LSN(1000), {1: LSN(150)}), "not in the history"),
    ],
)
def test_what_a_process_remembers_stops_no_relay(own: OwnPosition, server: Server, says: str) -> None:
    """Once its connection was gone another instance could lead: a new process would begin where the slot stands."""
    start = start_of(SLOT, own, server)
    assert start.lsn == 100
    assert says in start.notice


def test_another_cluster_is_refused_by_a_process_that_remembers_its_own() -> None:
    with pytest.raises(Fatal, match="is of the system 9, as this process remembers"):
        start_of(SLOT, remembered(200, System("9", 1)), SERVER)


def test_what_had_ended_by_a_position_is_still_known_where_the_stream_begins() -> None:
    assert start_of(SLOT, row(200), SERVER) == Start(LSN(200), xmin=700)
    assert start_of(SLOT, row(301), STANDBY).xmin == 0, "it counts what this server does not have"


def test_a_history_file_tells_where_timelines_branched_off() -> None:
    text = "1\t0/3000060\tno recovery target specified\n\n# a comment\n2\t0/5000000\tbefore 2026-11-21\n"
    assert timeline_ends(text) == {1: LSN.parse("0/3000060"), 2: LSN.parse("0/5000000")}
