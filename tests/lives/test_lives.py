"""Whole lives against the model; `make lives` lives as many as there is time for."""

from collections.abc import Iterator

import pytest

from tests.lives.life import FEATURES, Row, Rules, life
from tests.lives.model import Letter, Model
from tests.lives.receiver import Stored
from tests.lives.running import world
from tests.lives.world import World

_EACH = 5  # lives a test

FAILED_ONCE = (64, 104, 2041)
"""Seeds of lives in which something was found, in the product or in the model."""


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 101, _EACH))
def test_nothing_is_wrong_with_whole_lives(shared: World, first: int) -> None:
    for seed in range(first, first + _EACH):
        assert shared.live(life(seed)) == [], life(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_nothing_is_wrong_any_more_with_lives_in_which_something_was_found(shared: World, seed: int) -> None:
    assert shared.live(life(seed)) == [], life(seed)


def test_a_seed_has_one_life_and_each_feature_is_in_many() -> None:
    assert life(7) == life(7)
    assert len({str(life(seed)) for seed in range(100)}) == 100
    assert all(any(feature not in life(seed).left_out for seed in range(50)) for feature in FEATURES)


def _model(*rules: Rules, rows: int = 3) -> Model:
    model = Model()
    for each in rules:
        model.comes_in_force(each, 0)
    for n in range(rows):
        model.committed(n, Row("k0", "order"), 10 + n)
    return model


def _stored(*numbers: int, topic: str = "first", replayed: bool = False) -> list[Stored]:
    return [Stored("a", topic, "k0", n, replayed, 0.0) for n in numbers]


WAITING = Letter(1, ("a", "first"), "waiting")


@pytest.mark.parametrize(
    ("journal", "letters", "says"),
    [
        (_stored(0, 1, 2), [], ""),
        (_stored(0, 2), [], "row 1 is missing"),
        (_stored(0, 2, 1), [], "row 1 came to ('a', 'first') after row 2"),
        (_stored(0, 1, 1, 2), [], "row 1 came to ('a', 'first') again"),
        (_stored(0, 1, 2, 3), [], "row 3 was published and never committed"),
        ([*_stored(0, 1, 2), *_stored(2, topic="second")], [], "row 2 is in"),
        (_stored(0, 2), [WAITING], "row 1 is missing"),
        (_stored(0, 2), [Letter(1, ("a", "first"), "discarded")], ""),
        ([*_stored(0, 2), *_stored(1, replayed=True)], [Letter(1, ("a", "first"), "replayed")], ""),
    ],
)
def test_the_model_tells_what_is_wrong(journal: list[Stored], letters: list[Letter], says: str) -> None:
    found = " ".join(_model(Rules()).faults(journal, letters, settled=True))
    assert (says in found) if says else not found


def test_a_key_that_is_blocked_waits_for_its_dead_letter() -> None:
    journal = [*_stored(0, 2), *_stored(1, replayed=True)]
    letters = [Letter(1, ("a", "first"), "replayed")]
    found = _model(Rules(block_key=True)).faults(journal, letters, settled=True)
    assert found == ["row 1 came to ('a', 'first') after row 2 of its key k0"]


def test_other_settings_explain_another_topic_unless_the_row_was_confirmed_before() -> None:
    model = _model(Rules())
    moved = [*_stored(0, 1), *_stored(2, topic="second")]
    model.comes_in_force(Rules(renamed=True), 11)
    assert model.faults(moved, [], settled=True) == []
    model.rows[2].last = 0
    assert "where no settings since its commit send it" in " ".join(model.faults(moved, [], settled=True))
