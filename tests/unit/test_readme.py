"""What the README promises has the test that it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
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
