"""`walrelay docs`: the manual where only the package is installed, and what points to it."""

import ast
import re
from pathlib import Path

from click.testing import CliRunner

from walrelay.cli import main
from walrelay.cli.docs import pages

ROOT = Path(__file__).parents[3]


def test_every_page_of_the_manual_is_printed() -> None:
    assert set(CliRunner().invoke(main, ["docs"]).output.split()) == {
        file.stem for file in (ROOT / "docs").glob("*.md")
    }
    for page in pages():
        assert CliRunner().invoke(main, ["docs", page]).output == (ROOT / "docs" / f"{page}.md").read_text()


def test_a_page_that_is_not_there_is_said_with_those_that_are() -> None:
    answer = CliRunner().invoke(main, ["docs", "nosuch"])
    assert answer.exit_code == 2
    assert "there are" in answer.output
    assert "settings" in answer.output


def test_what_a_user_is_told_to_read_is_in_the_package() -> None:
    """A text that names a file of the repository leads nowhere for who installed the wheel."""
    for module in (ROOT / "walrelay").rglob("*.py"):
        for text in _texts(module):
            assert set(re.findall(r"`walrelay docs ([a-z-]+)", text)) <= set(pages()), f"{module}: {text}"
            assert not re.search(r"docs/[a-z-]+\.md", text), f"{module}: {text}"


def _texts(module: Path) -> set[str]:
    """The strings of a module, docstrings only where users see them: as the help of a command."""
    nodes = [*ast.walk(ast.parse(module.read_text()))]
    texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    if module.is_relative_to(ROOT / "walrelay" / "cli"):
        return texts
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return texts - {ast.get_docstring(node, clean=False) or "" for node in nodes if isinstance(node, documented)}
