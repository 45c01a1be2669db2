"""Progress as a command shows it where stderr is no terminal: what a log of it should hold, and no bar."""

import pytest

from walrelay.cli.progress import BarObserver, Bars, progress
from walrelay.observe import Backfilled, Backfilling, Happening, Noticed, Retrying, Stalled


def test_a_backfill_says_how_many_rows_there_are_and_what_gets_in_its_way(capsys: pytest.CaptureFixture[str]) -> None:
    happenings: list[Happening] = [
        Backfilling(3, 0),
        Backfilled(2),
        Stalled(5.5, 1, ""),
        Retrying("down", 1, 0.25, False),
        Backfilling(1, 2),
        Noticed("hello"),
        Backfilled(1),
    ]
    with BarObserver() as observer:
        for happening in happenings:
            observer.saw(happening)
    assert observer.rows == 3
    assert [line for line in capsys.readouterr().err.splitlines() if line] == [
        "3 rows to publish",
        "publishing",
        "the broker acknowledged nothing for 6 s: nothing was acknowledged",
        "down; trying again in 0.2 s",
        "continuing: 2 rows were already published",
        "1 row to publish",
        "publishing",
        "hello",
    ]


def test_a_clean_up_says_each_label_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Bars() as bars:
        for label, done in (("counting", 0), ("deleting", 0), ("deleting", 5), ("deleting", 10)):
            bars.at(label, done, 10)
    assert capsys.readouterr().err.split() == ["counting", "deleting"]


def test_items_come_through_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress(iter("ab"), 2, "exporting")) == ["a", "b"]
    assert capsys.readouterr().err == ""
