"""`walrelay docs`: the manual where only the package is installed, and what points to it."""

import ast
import re
from pathlib import Path

from click.testing import CliRunner

from walrelay.cli import SUMMARIES, main
from walrelay.cli.docs import pages

ROOT = Path(__file__).parents[3]


def test_every_page_of_the_manual_is_printed() -> None:
    texts = {file.stem: file.read_text() for place in ("docs", "docs/guides") for file in (ROOT / place).glob("*.md")}
    assert "cut-over" in texts
    assert CliRunner().invoke(main, ["docs"]).output.split() == sorted(texts)
    for page, text in texts.items():
        assert CliRunner().invoke(main, ["docs", page]).output == text


def test_a_page_that_is_not_there_is_said_with_those_that_are() -> None:
    answer = CliRunner().invoke(main, ["docs", "nosuch"])
    assert answer.exit_code == 2
    assert "the pages are" in answer.output
    assert "settings" in answer.output


def test_a_section_of_a_page_is_printed_with_what_is_below_its_heading() -> None:
    printed = CliRunner().invoke(main, ["docs", "runbook#slot-lost"]).output
    assert printed.startswith("### Slot lost\n")
    assert "walrelay recover --dry-run" in printed
    assert printed.count("###") == 1
    alerts = CliRunner().invoke(main, ["docs", "runbook#alerts"]).output
    assert alerts.count("\n### ") > 10
    assert "## Errors" not in alerts
    answer = CliRunner().invoke(main, ["docs", "runbook#nosuch"])
    assert (answer.exit_code, "no section 'nosuch'" in answer.output) == (2, True)


def test_what_a_user_is_told_to_read_is_in_the_package() -> None:
    """A text that names a file of the repository leads nowhere for who installed the wheel."""
    package = ROOT / "walrelay"
    shipped = [file for end in ("yaml", "html", "css") for file in package.rglob(f"*.{end}")]
    shipped += (ROOT / "sql").glob("*.sql")
    said = [(file, file.read_text()) for file in shipped]
    said += [(module, text) for module in package.rglob("*.py") for text in _texts(module)]
    granted = (ROOT / "deploy" / "grants.sql").read_text()  # a file of the repository, which the package can write
    assert len(said) > 1000
    for file, text in said:
        assert set(re.findall(r"walrelay docs ([a-z-]+)", text)) <= set(pages()), f"{file}: {text}"
        if text not in granted:
            assert not re.search(r"\b(docs|deploy|tests)/[\w./-]+|README|CHANGELOG", text), f"{file}: {text}"


def test_every_command_has_a_row_on_its_page() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert set(re.findall(r"^\| `walrelay (\w+)` \|", page, re.MULTILINE)) == set(SUMMARIES)


def test_every_subject_of_the_doctor_has_a_row_on_its_page() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text()
    modules = [*(ROOT / "walrelay" / "operations" / "doctor").glob("*.py"), *(ROOT / "walrelay/sinks").rglob("*.py")]
    calls = [node for each in modules for node in ast.walk(ast.parse(each.read_text())) if isinstance(node, ast.Call)]
    subjects = {
        str(call.args[0].value)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in ("ok", "warning", "problem", "Finding")
        if call.args and isinstance(call.args[0], ast.Constant)
    }
    assert len(subjects) > 20
    assert {subject for subject in subjects if f"`{subject}`" not in page} == set()


def _texts(module: Path) -> set[str]:
    """The strings of a module, docstrings only where users see them: as the help of a command."""
    nodes = [*ast.walk(ast.parse(module.read_text()))]
    texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    if module.is_relative_to(ROOT / "walrelay" / "cli"):
        return texts
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return texts - {ast.get_docstring(node, clean=False) or "" for node in nodes if isinstance(node, documented)}
