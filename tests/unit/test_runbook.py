"""Each error that ends a relay leads to a page of the runbook."""

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

import walrelay
from walrelay import unforeseen
from walrelay.cli.docs import section
from walrelay.errors import Fatal, RunbookPage
from walrelay.sinks.clients import client_library

PACKAGE = Path(walrelay.__file__).parent
RUNBOOK = (PACKAGE.parent / "docs" / "runbook.md").read_text()

# The rooms that a relay runs through and in which a plain Fatal has to name its page. Sinks and registries raise
# SinkError, which has one.
NAMING = (
    "certificates.py",
    "compose.py",
    "confirm",
    "decode",
    "operations/doctor",
    "postgres",
    "publish",
    "relay",
    "route/router.py",
    "schemas",
    "sinks",
    "source",
    "table/backfill_journal.py",
    "telemetry",
    "wire",
    "wiring.py",
)


def fatals() -> Iterator[tuple[str, type[Fatal], bool]]:
    """Each call of the package that makes one: where, its class, and whether it names a page."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "lab" in path.parts:
            continue
        module = None
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[0].isupper():
                if module is None:
                    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
                    module = importlib.import_module(name.removesuffix(".__init__"))
                kind = getattr(module, node.func.id, None)
                if inspect.isclass(kind) and issubclass(kind, Fatal):
                    named = any(each.arg == "page" for each in node.keywords)
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", kind, named


def test_every_page_is_there() -> None:
    assert [page for page in get_args(RunbookPage) if section(RUNBOOK, page) is None] == []


def test_every_error_that_ends_a_relay_names_its_page() -> None:
    found = [*fatals()]
    assert len(found) > 150
    assert [where for where, kind, named in found if kind is Fatal and where.startswith(NAMING) and not named] == []
    assert {kind.page for _, kind, _ in found} <= {*get_args(RunbookPage)}
    assert {kind.__name__ for _, kind, _ in found if kind.page == "others"} == {"Fatal"}


def test_what_a_sink_raises_without_a_page_of_its_own_is_the_sinks() -> None:
    def opened() -> None:
        with client_library("Kafka", "kafka"):
            raise ImportError

    assert explained(opened).page == "sink"


def test_any_other_error_keeps_its_page() -> None:
    def lost() -> None:
        raise Fatal("gone", page="slot-lost")

    def odd() -> None:
        raise Fatal("odd")

    def mistaken() -> None:
        raise ZeroDivisionError

    assert [explained(each).page for each in (lost, odd, mistaken)] == ["slot-lost", "others", "bug"]


def explained(wrong: Callable[[], None]) -> Fatal:
    with pytest.raises(Exception) as raised:
        wrong()
    found = unforeseen.explained(raised.value)
    assert isinstance(found, Fatal)
    return found
