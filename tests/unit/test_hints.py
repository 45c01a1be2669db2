"""What walrelay advises exists: commands with their options, settings and pages named in any text of the package."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from pydantic import BaseModel

import walrelay
from walrelay.cli import main
from walrelay.config import Settings
from walrelay.publish import installed
from walrelay.publish.plugins import load

PACKAGE = Path(walrelay.__file__).parent
DOCUMENTS = [
    PACKAGE.parent / "README.md",
    *(page for page in (PACKAGE.parent / "docs").rglob("*.md") if "decisions" not in page.parts),
]
TOPICS = ("outbox.event", "outbox.dead_letters")  # what a topic is called, not a setting
OF_DEBEZIUM = ("route.by.field", "route.topic.re", "route.tombstone", "sink.type", "sink.kafka")  # its own names
SECTIONS = "source|outbox|route|refusals|position|retry|log"


def text_of(node: ast.AST) -> str | None:
    """A literal as it stands there; what is filled in at run time is a word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "FILLED" for part in node.values)
    return None


@cache
def literals(path: Path) -> list[tuple[int, str, bool]]:
    """Each text that a module may say, with its line, and whether it is a hint: of an f-string the whole, not its
    parts, and of docstrings those of commands, which are their help.
    """
    tree = ast.parse(path.read_text())
    inside, hints = set[int](), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for value in node.values for part in ast.walk(value)}
        if isinstance(node, ast.keyword) and node.arg == "hint":
            hints |= {id(part) for part in ast.walk(node.value)}
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and "\b\n" not in str(node.value.value):
            inside.add(id(node.value))
    return [
        (node.lineno, text, id(node) in hints)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        and id(node) not in inside
        and (text := text_of(node)) is not None
    ]


def advised() -> list[tuple[str, str]]:
    """Every command of walrelay's that a text names between backticks, that a hint or an example begins with, that the
    doctor has as a fix, or that a page shows; with where it stands.
    """
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = str(path.relative_to(PACKAGE))
        for line, text, is_hint in literals(path):
            named = [match[1] for match in re.finditer(r"`(walrelay [^`]*)`", text)]
            if is_hint and text.startswith("walrelay "):
                named.append(text)
            if "\b\n" in text:
                examples = (each.strip() for each in text.partition("Example:\n")[2].splitlines())
                named += [
                    each[each.index("walrelay ") :] for each in examples if re.search(r"(^|\s)walrelay [a-z]", each)
                ]
            found += [(f"{where}:{line}", each) for each in named]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "walrelay":
                found += [(f"{where}:{node.lineno}", f"walrelay {text_of(each)}") for each in node.args[:1]]
    for page in DOCUMENTS:
        code = False
        for number, shown in enumerate(page.read_text().splitlines(), 1):
            code ^= shown.startswith("```")
            begins = re.match("(walrelay [^#|>]*)", shown) if code else None
            for match in [begins] if begins else re.finditer(r"`(walrelay [^`|]*)`", shown):
                found.append((f"{page.name}:{number}", match[1]))
    return found


def words(command: str) -> list[str]:
    """As a shell takes them; what stands for something else stands for itself."""
    shortened = re.split(r" [|>] |   #| &&|;| \.\.\.|, ", command)[0].replace("[", " ").replace("]", " ").strip()
    return shlex.split(shortened)[1:]


def refuse_unknown(command: str) -> None:
    """click.UsageError or AssertionError for what is no command of walrelay's, or has an option that it has not."""
    group: click.Command = main
    rest = words(command)
    while isinstance(group, click.Group) and rest and not rest[0].startswith("-") and "FILLED" not in rest[0]:
        name, *rest = rest
        found = group.get_command(click.Context(group), name)
        assert found is not None, f"there is no command {name!r}"
        group = found
    known = {name for parameter in group.params for name in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "-h", "--version"}
    for word in rest:
        if re.match(r"--?[a-zA-Z]", word):
            assert word.partition("=")[0] in known, f"{group.name} has no option {word}"


ADVISED = advised()


def test_there_is_advice_to_look_at() -> None:
    assert len(ADVISED) > 100
    assert any("recover --replace" in command for _, command in ADVISED)


def test_every_command_that_is_advised_exists_with_its_options() -> None:
    wrong = []
    for where, command in ADVISED:
        try:
            refuse_unknown(command)
        except (AssertionError, ValueError) as error:
            wrong.append(f"{where}: {command!r}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    "command", ["walrelay heal", "walrelay doctor --all", "walrelay dlq open", "walrelay recover -x"]
)
def test_a_command_that_does_not_exist_is_found_out(command: str) -> None:
    with pytest.raises(AssertionError):
        refuse_unknown(command)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)


def setting_exists(name: str) -> bool:
    """Whether the settings have it, whatever stands for a key of a mapping."""
    model: type[BaseModel] | None = Settings
    for step in name.split("."):
        if model is None or step == "FILLED":
            return True
        if step not in model.model_fields:
            return False
        model = next(_models(model.model_fields[step].annotation), None)
    return True


def test_every_setting_that_is_named_exists() -> None:
    """As `section.name`, in any text; and of the sink those of its kind, or outside of the sinks those of Kafka, which
    has the most.
    """
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        folder = path.relative_to(PACKAGE).parts[1:-1] if path.is_relative_to(PACKAGE / "sinks") else ()
        kind = next((each for each in folder if each in installed()), "sqs" if "aws" in folder else "kafka")
        of_sink = {*load(kind).settings.model_fields, "kind", "settings"}
        for line, text, _ in literals(path):
            for match in re.finditer(rf"(?<![\w./*{{'-])((?:{SECTIONS})\.[a-z_]+(?:\.[a-zA-Z_]+)*)(?![\w(/=])", text):
                if not setting_exists(match[1]) and not match[1].startswith((*TOPICS, *OF_DEBEZIUM)):
                    wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {match[1]}")
            for match in re.finditer(r"(?<![\w.])sink\.([a-z_]+)", text):
                if match[1] not in of_sink and match[0] not in OF_DEBEZIUM:
                    wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {match[0]}")
    assert wrong == []


def test_every_page_that_is_named_exists() -> None:
    named = {
        match[1] or match[2]
        for path in PACKAGE.rglob("*.py")
        for _, text, _ in literals(path)
        for match in re.finditer(r"docs/([\w/-]+)\.md|`walrelay docs ([\w-]+)`", text)
    }
    assert named
    assert [name for name in sorted(named) if not (PACKAGE.parent / "docs" / f"{name}.md").is_file()] == []


@pytest.mark.parametrize("name", ["outbox.column.id", "source.slots", "route.topics"])
def test_a_setting_that_does_not_exist_is_found_out(name: str) -> None:
    assert not setting_exists(name)
