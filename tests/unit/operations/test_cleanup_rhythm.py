"""How much a clean-up does at a time, and the pauses between."""

import pytest

from walrelay.operations.cleanup.batches import TARGET, Rhythm


def test_batches_come_to_take_about_as_long_as_planned() -> None:
    rhythm = Rhythm(1.0)
    for _ in range(20):
        rhythm.took(rhythm.pages * 0.0001)
    assert rhythm.pages * 0.0001 == pytest.approx(TARGET, rel=0.1)


def test_the_pause_leaves_the_rest_of_the_time_to_others() -> None:
    assert Rhythm(0.25).took(0.02) == pytest.approx(0.06)
    assert Rhythm(1.0).took(0.02) == 0


def test_a_batch_that_gave_way_is_followed_by_a_smaller_one_down_to_a_page() -> None:
    rhythm = Rhythm(0.1)
    for _ in range(10):
        rhythm.gave_way()
    assert rhythm.pages == 1
