"""What the README promises has the test that it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUARANTEES = ROOT / "docs" / "guarantees.md"
NAMED = [
    (page, name, path) for page in PAGES for name, path in re.findall(r"\[(test_\w+)\]\(([^)#]+)\)", page.read_text())
]
LINKED = [(page, path) for page in PAGES for path in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())]


def test_the_readme_names_tests() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("page", "name", "path"), NAMED, ids=[name for _, name, _ in NAMED])
def test_a_test_that_is_named_exists(page: Path, name: str, path: str) -> None:
    assert f"\ndef {name}(" in (page.parent / path).read_text()


@pytest.mark.parametrize(("page", "path"), LINKED, ids=[f"{page.name}-{path}" for page, path in LINKED])
def test_a_file_that_is_linked_exists(page: Path, path: str) -> None:
    assert (page.parent / path).exists()


@pytest.mark.parametrize(("section", "entries"), [("A", 49), ("B", 9), ("C", 23), ("D", 34)])
def test_every_pitfall_is_met_or_has_a_sentence_that_says_why_it_does_not_apply(section: str, entries: int) -> None:
    rows = re.findall(r"^\| ([A-D]\d+(?:, [A-D]\d+)*) \| (.+) \| (.+) \|$", GUARANTEES.read_text(), re.MULTILINE)
    met = {entry: by for ids, _, by in rows for entry in ids.split(", ")}
    for number in range(1, entries + 1):
        assert re.search(r"\[test_\w+\]|\w+ .*\.", met[f"{section}{number}"])
