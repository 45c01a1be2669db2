"""Options that several commands share: times and positions as they are typed."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import click
import pytest

from walrelay.cli.options import MomentType, PositionsType, ZonedMomentType
from walrelay.lsn import LSN
from walrelay.operations.replay import position_range


def test_a_duration_is_so_long_ago_and_is_remembered_as_it_was_typed() -> None:
    moment = MomentType().convert("90 min", None, None)
    assert moment.typed == "90 min"
    assert abs(datetime.now(UTC) - timedelta(minutes=90) - moment.at) < timedelta(seconds=10)


@pytest.mark.parametrize("text", ["2026-11-21T20:25:00Z", "2026-11-21T21:25+01:00", "2026-11-21 20:25:00+00:00"])
def test_a_time_with_a_zone_is_that_time(text: str) -> None:
    assert MomentType().convert(text, None, None).at == datetime(2026, 11, 21, 20, 25, tzinfo=UTC)


def test_a_date_is_its_midnight_by_the_machines_clock() -> None:
    assert MomentType().convert("2026-11-21", None, None).at == datetime(2026, 11, 21).astimezone()


@pytest.fixture
def machine_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Gives this process another time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("text", ["2026-11-21 20:25", "2026-11-21T20:25:00", "2026-11-21"])
def test_a_time_that_must_not_be_mistaken_says_its_zone(machine_in: Callable[[str], None], text: str) -> None:
    machine_in("JST-9")
    with pytest.raises(click.BadParameter, match="has no time zone: write"):
        ZonedMomentType().convert(text, None, None)
    assert ZonedMomentType().convert("2026-11-21T20:25Z", None, None).at == datetime(2026, 11, 21, 20, 25, tzinfo=UTC)
    assert ZonedMomentType().convert("2h", None, None).typed == "2h"


def test_on_a_machine_in_utc_there_is_nothing_to_mistake(machine_in: Callable[[str], None]) -> None:
    machine_in("UTC0")
    assert ZonedMomentType().convert("2026-11-21", None, None).at == datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "", "-2h", "2026-13-01"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2h for two hours ago"):
        MomentType().convert(text, None, None)


def test_a_range_of_positions_has_both_ends_and_whole_transactions() -> None:
    a, b = LSN.parse("16/B374D848"), LSN.parse("16/B374E0A0")
    inf = float("inf")
    assert position_range("16/B374D848:2..16/B374E0A0:7") == ((a, 2), (b, 7))
    assert position_range("16/B374D848..16/B374E0A0") == ((a, 0), (b, inf))
    assert position_range("16/B374D848") == ((a, 0), (a, inf))
    assert position_range("16/B374D848:0") == ((a, 0), (a, 0))


@pytest.mark.parametrize("text", ["", "x", "16/B374D848..", "..16/B374D848", "16/B374D848:x"])
def test_what_is_no_range_of_positions_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="not a range of positions"):
        PositionsType().convert(text, None, None)
