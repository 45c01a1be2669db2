"""The text of a settings file as plain values, each with the line it stands on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import yaml

from walrelay.config.substitution import encodable

_DEEPEST = 32

Path = tuple[str | int, ...]  # ("outbox", "columns", "id"); an int is a place in a list

_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "null", "bool", "int", "float", "timestamp")
)


class Problem(NamedTuple):
    """What is wrong at `path`, which stands on `line` (counted from 1)."""

    line: int
    path: Path
    text: str


class Document(NamedTuple):
    """Mappings, lists and scalars; `lines` knows every path in `value`, and () as line 1."""

    value: Any
    lines: dict[Path, int]
    problems: list[Problem]

    def line(self, path: Path) -> int:
        """The line of `path`, or of the nearest thing around it that is in the file."""
        return self.lines[self.known(path)]

    def known(self, path: Path) -> Path:
        """As much of `path` as is in the file."""
        while path not in self.lines:
            path = path[:-1]
        return path


def read(text: str) -> Document:
    """One YAML document. What is not YAML at all is a single problem, because nothing after it can be trusted."""
    reading = _Reading()
    try:
        return Document(reading.document(text), reading.lines, reading.problems)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return _unreadable(line, _complaint(error))
    except yaml.reader.ReaderError as error:
        return _unreadable(text.count("\n", 0, error.position) + 1, error.reason)


def _unreadable(line: int, text: str) -> Document:
    return Document({}, {(): 1}, [Problem(line, (), f"YAML: {text}")])


def _complaint(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's words, and where the thing began in which something was found: often that is the place to look."""
    complaint = str(error.problem)
    if error.context:
        since = f" (from line {error.context_mark.line + 1})" if error.context_mark else ""
        complaint = f"{error.context}{since}: {complaint}"
    if error.context and "flow" in error.context:
        complaint += "; within {} and [] a ${NAME} goes in quotes"
    return complaint


def replaced(document: Document, replacement: Callable[[Path, str], Any]) -> Document:
    """The document with every text put through `replacement`; a ValueError from it is a problem, its text None."""
    problems: list[Problem] = []

    def walk(value: Any, path: Path) -> Any:
        match value:
            case dict():
                return {key: walk(item, (*path, key)) for key, item in value.items()}
            case list():
                return [walk(item, (*path, index)) for index, item in enumerate(value)]
            case str():
                try:
                    return replacement(path, value)
                except ValueError as error:
                    problems.append(Problem(document.line(path), path, str(error)))
                    return None
            case _:
                return value

    value = walk(document.value, ())
    return Document(value, document.lines, document.problems + problems)


class _Loader(yaml.SafeLoader):
    """YAML without aliases: nine lines of them can stand for a billion values, and no settings file needs one. Nor does
    one need depth, which would end in Python's own limit somewhere.
    """

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise self._refusal("aliases are not allowed, write it out")
        if self.depth > _DEEPEST:
            raise self._refusal(f"lists and mappings are nested deeper than {_DEEPEST}")
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def _refusal(self, text: str) -> yaml.MarkedYAMLError:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        return yaml.composer.ComposerError(None, None, text, mark)


class _Reading:
    """Walks YAML's nodes, which know their lines, rather than its values, which do not."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {(): 1}
        self.problems: list[Problem] = []

    def document(self, text: str) -> Any:
        self._loader = _Loader(text)
        try:
            node = self._loader.get_single_node()
            return {} if node is None else self._value(node, ())
        finally:
            self._loader.dispose()

    def _value(self, node: yaml.Node, path: Path) -> Any:
        if node.tag not in _TAGS:
            self._problem(node, path, f"the YAML tag {node.tag} means nothing here, remove it")
            return None
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            # As it is written: YAML would read the key `on` as True. No setting's key is a list or a mapping.
            name = self._text(key) if isinstance(key, yaml.ScalarNode) else "?"
            here = (*path, name)
            try:
                encodable(name)
            except ValueError as error:
                self._problem(key, path, f"a key {error}")
                continue
            if name in values:
                self._problem(key, here, f"is already on line {self.lines[here]}; keep one of the two")
                continue
            self.lines[here] = key.start_mark.line + 1
            values[name] = self._value(item, here)
        return values

    def _item(self, node: yaml.Node, path: Path) -> Any:
        self.lines[path] = node.start_mark.line + 1
        return self._value(node, path)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        if node.tag.endswith((":timestamp", ":str")):
            return self._text(node)  # no setting is a date
        try:
            return self._loader.construct_object(node)
        except ValueError:
            self._problem(node, path, f"{node.value!r} is not a value, put it in quotes if it is text")
            return None

    def _text(self, node: yaml.Node) -> str:
        r"""What JSON writes for a character beyond the first 65536, \\ud83d\\ude00, is one character again."""
        text: str = node.value
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def _problem(self, node: yaml.Node, path: Path, text: str) -> None:
        self.problems.append(Problem(node.start_mark.line + 1, path, text))
