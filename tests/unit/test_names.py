"""One name is one thing: no two modules of the package have a class of the same name."""

import ast
from collections import defaultdict
from pathlib import Path

import walrelay

PACKAGE = Path(walrelay.__file__).parent
FOR_EACH_LIBRARY = {"RecordsEvents"}  # applications import it from the module of their library


def test_a_class_has_its_name_for_itself() -> None:
    modules = defaultdict[str, list[str]](list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path.relative_to(PACKAGE).as_posix())

    assert {name: found for name, found in modules.items() if len(found) > 1}.keys() == FOR_EACH_LIBRARY
