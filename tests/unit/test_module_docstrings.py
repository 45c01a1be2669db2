"""Every module says in its first line what is in it."""

import ast
from pathlib import Path

import pytest

import walrelay

PACKAGE = Path(walrelay.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_a_docstring_of_three_words_or_more(module: str) -> None:
    text = ast.get_docstring(ast.parse((PACKAGE / module).read_text(encoding="utf-8")))

    assert text is not None
    assert len(text.split()) >= 3
