"""The table of pairs of features is whole, and names tests that exist."""

import ast
import re
from itertools import combinations
from pathlib import Path

import pytest

from tests.pairs import FEATURES, PAIRS

TESTS = Path(__file__).parents[1]
OPEN = 3
"""So many pairs no test has, and they can meet. A number that may fall alone."""

_TEST = re.compile(r"([\w/]+\.py)::(test_\w+)")


def named() -> list[tuple[str, str]]:
    """Each test of the table once: its file and its name."""
    return sorted({found for what in PAIRS.values() for found in _TEST.findall(what)})


def test_each_pair_of_features_is_there_once() -> None:
    assert [*PAIRS] == [*combinations(FEATURES, 2)]
    written = [each for each in ast.walk(ast.parse((TESTS / "pairs.py").read_text())) if isinstance(each, ast.Dict)]
    assert len(written[-1].keys) == len(PAIRS) == 171, "a pair that is written twice is in the table once"


@pytest.mark.parametrize(("path", "name"), named(), ids=[name for _, name in named()])
def test_a_test_of_the_table_exists(path: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (TESTS / path).read_text(), re.MULTILINE)


def test_what_is_no_test_has_a_reason() -> None:
    for pair, what in PAIRS.items():
        assert _TEST.fullmatch(what) or re.match(r"(cannot meet|open): \w.{20}", what), pair


def test_the_open_pairs_do_not_grow() -> None:
    assert sum(what.startswith("open:") for what in PAIRS.values()) == OPEN
