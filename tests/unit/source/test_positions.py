"""The relay's own position: when it is kept, and whether it still means the same records."""

from typing import cast

import pytest

from walrelay.errors import Fatal, NotKept
from walrelay.lsn import LSN
from walrelay.model import Counting, RelayPosition, System
from walrelay.postgres.catalog import Catalog
from walrelay.source.positions import OwnPositionKeeper, refuse_another_count

START = RelayPosition(System("7301", 1), "orders", LSN(100))


class Place:
    """Keeps what it is given, up to `limit`; and a catalog whose snapshots the test sets."""

    def __init__(self) -> None:
        self.kept: list[RelayPosition] = []
        self.limit = LSN(10**9)
        self.snapshot = (700, LSN(150))
        self.full = False

    def fence(self) -> bool:
        return True

    def trouble(self) -> str:
        return ""

    def last(self) -> RelayPosition | None:
        return self.kept[-1] if self.kept else None

    def keep(self, position: RelayPosition) -> LSN:
        self.kept.append(position)
        if self.full:
            raise NotKept("no space")
        return min(position.lsn, self.limit)

    def horizon(self) -> tuple[int, LSN]:
        return self.snapshot


class Timed:
    """A keeper over such a place, and the time it sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("walrelay.source.positions.monotonic", lambda: self.now)
        self.place = Place()
        self.said: list[str] = []
        self.keeper = OwnPositionKeeper(self.place, cast(Catalog, self.place), 0.1, self.said.append)
        self.keeper.begin(START)

    def keep(self, lsn: int, *, idle: bool = False, after: float = 1.0) -> int:
        self.now += after
        return self.keeper.keep(LSN(lsn), idle=idle)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    return Timed(monkeypatch)


def test_what_is_confirmed_was_kept_before(timed: Timed) -> None:
    """Section D: D12."""
    assert timed.keep(200) == 200
    assert timed.place.kept[-1].lsn == 200


def test_between_two_positions_nothing_more_is_confirmed(timed: Timed) -> None:
    timed.keep(200)
    assert timed.keep(300, after=0.05) == 200
    assert timed.keep(300, after=0.06) == 300


def test_a_place_that_needs_longer_holds_the_confirmation_back(timed: Timed) -> None:
    timed.place.limit = LSN(150)
    assert timed.keep(200) == 150
    timed.place.limit = LSN(200)
    assert timed.keep(200) == 200


def test_a_place_without_space_holds_the_confirmation_back_and_is_asked_once_a_second_and_told_of_twice_a_minute(
    timed: Timed,
) -> None:
    timed.keep(200)
    timed.place.full = True
    assert {timed.keep(300 + turn, after=0.1) for turn in range(600)} == {200}
    assert 55 < len(timed.place.kept) < 65
    assert len(timed.said) == 2
    timed.place.full = False
    assert timed.keep(1000) == 1000
    assert timed.said[2:] == ["the relay's own position can be written again"]


def test_a_place_that_has_kept_nothing_yet_does_not_take_the_start_back(timed: Timed) -> None:
    timed.place.limit = LSN(0)
    assert timed.keep(200) == 100


def test_on_leaving_a_place_that_cannot_take_it_is_asked_for_two_seconds_with_pauses(
    timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        timed.now += seconds

    monkeypatch.setattr("walrelay.source.positions.sleep", sleep)
    timed.place.limit = LSN(0)
    assert timed.keeper.keep_at_last(LSN(200)) == 100
    assert len(timed.place.kept) < 500


def test_idle_progress_is_kept_less_and_less_often(timed: Timed) -> None:
    """Keeping a position in a table moves the WAL, and that is idle progress again."""
    for step in range(1000):
        timed.keep(200 + step, idle=True, after=0.1)
    assert 10 < len(timed.place.kept) < 20, "of a hundred seconds"
    assert timed.keep(5000, after=0.1) == 5000, "events are kept at once"


def test_much_idle_wal_is_kept_at_once_to_be_freed(timed: Timed) -> None:
    for _ in range(10):
        timed.keep(300, idle=True, after=20)
    assert timed.keep(300 + 9 * 2**20, idle=True, after=0.2) == 300 + 9 * 2**20


def test_an_xid_goes_with_a_position_once_the_server_has_passed_the_snapshot(timed: Timed) -> None:
    """Every transaction below it had ended by then, so its events are published."""
    timed.keep(200)
    assert timed.place.kept[-1].xmin == 0, "the snapshot is only asked for now"
    timed.place.snapshot = (800, LSN(400))
    timed.keep(210)
    assert timed.place.kept[-1].xmin == 700
    timed.keep(220, after=6)
    timed.keep(399)
    assert timed.place.kept[-1].xmin == 700, "the new one is of a time that the position has not reached"
    timed.keep(400)
    assert timed.place.kept[-1].xmin == 800


def test_the_xid_of_the_position_that_a_run_begins_with_goes_on_with_it(timed: Timed) -> None:
    """Until the first snapshot counts, the place would say that nothing is known."""
    timed.keeper.begin(START._replace(xmin=650))
    timed.keep(200)
    assert timed.place.kept[-1].xmin == timed.keeper.xmin == 650
    timed.keep(210)
    assert timed.keeper.xmin == 700


THEN = Counting("pgoutput", "walrelay", "public.outbox", "walrelay")
POSITION = RelayPosition(System("7301", 1), "walrelay", LSN(16), LSN(32), 5, counted=THEN)


def test_settings_that_count_in_the_same_way_go_on() -> None:
    refuse_another_count(POSITION, THEN)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"plugin": "wal2json, format 2"}, "source.plugin: pgoutput, not wal2json, format 2"),
        ({"publication": "other"}, "source.publication: walrelay, not other"),
        ({"table": "public.events"}, "outbox.table: public.outbox, not public.events"),
        ({"prefix": None}, "outbox.messages.prefix: walrelay, not null"),
    ],
)
def test_each_setting_that_decides_what_counts_is_named_with_what_it_was(change: dict[str, str], said: str) -> None:
    with pytest.raises(Fatal) as caught:
        refuse_another_count(POSITION, THEN._replace(**change))
    assert f"at 0/20 is published up to before its record 5, which was counted with {said}:" in str(caught.value)
    assert "beyond 0/20" in caught.value.hint


def test_what_an_earlier_version_kept_goes_on_where_logical_messages_count_as_they_did_by_default() -> None:
    earlier = POSITION._replace(counted=None)
    refuse_another_count(earlier, THEN)
    with pytest.raises(Fatal, match=r"earlier version, for which outbox\.messages\.prefix was walrelay"):
        refuse_another_count(earlier, THEN._replace(prefix=None))
