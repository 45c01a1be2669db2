"""A slot's name is the cluster's, and a relay's slot its database's: no statement goes by the name alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import walrelay

_PACKAGE = Path(walrelay.__file__).parent
_BY_NAME = re.compile(r"slot_name = (%s|ANY)")
_ANY_DATABASE = "SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s"  # Catalog.slot_of_any_database


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_a_statement_on_a_slot_by_its_name_names_the_database() -> None:
    found = [
        f"{path.relative_to(_PACKAGE)}: {text}"
        for path in _PACKAGE.rglob("*.py")
        if "lab" not in path.relative_to(_PACKAGE).parts
        for text in _texts(ast.parse(path.read_text()))
        if "FROM pg_replication_slots" in text and _BY_NAME.search(text)
        if "current_database()" not in text and text != _ANY_DATABASE
    ]
    assert found == []


def test_a_slot_is_dropped_in_one_place() -> None:
    of_the_relay = [path for path in _PACKAGE.rglob("*.py") if "lab" not in path.relative_to(_PACKAGE).parts]
    drops = "SELECT pg_drop_replication_slot"
    where = [
        str(path.relative_to(_PACKAGE))
        for path in of_the_relay
        for text in _texts(ast.parse(path.read_text()))
        if text.startswith(drops)
    ]
    assert where == ["postgres/slots.py"]
