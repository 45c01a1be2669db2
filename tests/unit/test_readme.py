"""What the README promises has the test that it names."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUARANTEES = ROOT / "docs" / "guarantees.md"
NAMED = [
    (page, name, path) for page in PAGES for name, path in re.findall(r"\[(test_\w+)\]\(([^)#]+)\)", page.read_text())
]
README = (ROOT / "README.md").read_text()
LINKED = [(page, path) for page in PAGES for path in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())]


ANCHORS = [
    (page, path, anchor)
    for page in PAGES
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
]


def section(title: str) -> str:
    """What the README has under a heading."""
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_readme_is_short_and_has_ten_guarantees_each_with_its_test() -> None:
    assert len(README.splitlines()) <= 160
    rows = re.findall(r"^\| (?!it holds).+\|$", section("What is guaranteed, and the test that shows it"), re.MULTILINE)
    assert len(rows) == 10
    assert all(len(re.findall(r"\[test_\w+\]\(", row)) == 1 for row in rows)


@pytest.mark.parametrize("title", ["How fast", "Beside the others"])
def test_every_measured_number_of_the_readme_stands_in_the_benchmarks(title: str) -> None:
    numbers = set(re.findall(r"\d[\d,]*\.\d+|\d+,\d+", section(title)))
    assert len(numbers) > 3
    measured = set(re.findall(r"\d[\d,.]*\d", (ROOT / "docs" / "benchmarks.md").read_text()))
    assert {number for number in numbers if not any(each.startswith(number) for each in measured)} == set()


@pytest.mark.parametrize(("page", "name", "path"), NAMED, ids=[name for _, name, _ in NAMED])
def test_a_test_that_is_named_exists(page: Path, name: str, path: str) -> None:
    assert re.search(rf"\n *def {name}\(", (page.parent / path).read_text())


@pytest.mark.parametrize(("page", "path"), LINKED, ids=[f"{page.name}-{path}" for page, path in LINKED])
def test_a_file_that_is_linked_exists(page: Path, path: str) -> None:
    assert (page.parent / path).exists()


NAMED_PATHS = {
    (page, path)
    for page in PAGES
    if page.parent.name != "decisions"  # those say what was then
    for path in re.findall(r"`((?:walrelay|tests|docs|deploy|sql)/[\w./-]+|\w+(?:/\w+)*/\w+\.py)`", page.read_text())
}


@pytest.mark.parametrize(
    ("page", "path"), sorted(NAMED_PATHS), ids=[f"{page.name}-{path}" for page, path in sorted(NAMED_PATHS)]
)
def test_a_path_that_is_named_exists(page: Path, path: str) -> None:
    """From the root of the repository, or of the package."""
    assert (ROOT / path).exists() or (ROOT / "walrelay" / path).exists()


@pytest.mark.parametrize(
    ("page", "path", "anchor"), ANCHORS, ids=[f"{page.name}-{path}-{anchor}" for page, path, anchor in ANCHORS]
)
def test_a_heading_that_is_linked_exists(page: Path, path: str, anchor: str) -> None:
    headings = re.findall(r"^#+ (.+)$", (page.parent / path if path else page).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_picture_of_the_rooms_has_the_layers_that_imports_are_held_to() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    shown = re.findall(r'class="room">(\w+)<', (ROOT / "docs" / "rooms.svg").read_text())
    assert shown == [room for layer in layers for room in layer.split(" | ")]


@pytest.mark.parametrize(("letter", "entries"), [("A", 49), ("B", 9), ("C", 23), ("D", 34)])
def test_every_pitfall_is_met_or_has_a_sentence_that_says_why_it_does_not_apply(letter: str, entries: int) -> None:
    rows = re.findall(r"^\| ([A-D]\d+(?:, [A-D]\d+)*) \| (.+) \| (.+) \|$", GUARANTEES.read_text(), re.MULTILINE)
    met = {entry: by for ids, _, by in rows for entry in ids.split(", ")}
    for number in range(1, entries + 1):
        assert re.search(r"\[test_\w+\]|\w+ .*\.", met[f"{letter}{number}"])
