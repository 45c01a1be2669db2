"""The text of a settings file as plain values, each with its line, and what `${NAME}` and `file:/path` stand for."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_REFERENCE = re.compile(
    r"\$(?P<escaped>\$\{) | \$\{ (?: (?P<name>[A-Za-z_][A-Za-z0-9_]*) (?: :-(?P<default>[^{}]*) )? \} )?",
    re.VERBOSE,
)
_FILE = "file:"


def expanded(text: str, env: Mapping[str, str]) -> str:
    """`text` with its references replaced from `env`; ValueError for one without a value.

    The default of `${NAME:-default}` stands in for a variable that is unset or empty, as in a shell. `$${` is a
    literal `${`. The result is always text, even where YAML would read a number: a password may be 0123.
    """
    return _REFERENCE.sub(lambda match: _referenced(match, env), text)


def _referenced(match: re.Match[str], env: Mapping[str, str]) -> str:
    if match["escaped"]:
        return "${"
    name, default = match["name"], match["default"]
    if name is None:
        raise ValueError("'${' must be followed by NAME} or NAME:-default}; a literal '${' is written '$${'")
    value = env.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise ValueError(f"the environment variable {name} is not set: set it, or write ${{{name}:-default}}")
    return value


def encodable(text: str) -> str:
    """`text`, if PostgreSQL and brokers can take it; else ValueError, which does not show it."""
    if "\0" in text:
        raise ValueError("contains a zero byte, which PostgreSQL allows in no name or text; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has bytes in it that are not UTF-8, or half of a surrogate pair; write it in UTF-8") from None
    return text


def revealed(text: str) -> str:
    """The secret itself: `file:/path` is that file's content without its last line end, all else is `text`."""
    if not text.startswith(_FILE):
        return text
    path = Path(text.removeprefix(_FILE))
    if not path.is_absolute():
        raise ValueError(f"{text!r} needs an absolute path, as in file:/run/secrets/name")
    return _content(path)


def _content(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    if not secret:
        raise ValueError(f"{path} is empty")
    return secret


_DEEPEST = 32

KeyPath = tuple[str | int, ...]  # ("outbox", "columns", "id"); an int is a place in a list

_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "null", "bool", "int", "float", "timestamp")
)


class Problem(NamedTuple):
    """What is wrong at `path`, which is on `line` (counted from 1)."""

    line: int
    path: KeyPath
    text: str


class Document(NamedTuple):
    """Mappings, lists and scalars; `lines` knows every path in `value`, and () as line 1."""

    value: Any
    lines: dict[KeyPath, int]
    problems: list[Problem]

    def line(self, path: KeyPath) -> int:
        """The line of `path`, or of the nearest thing around it that is in the file."""
        return self.lines[self.known(path)]

    def below(self, key: str) -> "Document":
        """What the file has under that key, with its own paths."""
        lines = {path[1:]: line for path, line in self.lines.items() if path[:1] == (key,)}
        problems = [each._replace(path=each.path[1:]) for each in self.problems if each.path[:1] == (key,)]
        return Document(self.value[key], lines, problems)

    def known(self, path: KeyPath) -> KeyPath:
        """The longest part of `path` that is in the file."""
        while path not in self.lines:
            path = path[:-1]
        return path


def read(text: str) -> Document:
    """Reads one YAML document. A syntax error is a single problem: nothing after it can be trusted."""
    reading = _YamlReading()
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
    """PyYAML's message, with the line where the enclosing element began: often the fault is there."""
    complaint = str(error.problem)
    if error.context:
        since = f" (from line {error.context_mark.line + 1})" if error.context_mark else ""
        complaint = f"{error.context}{since}: {complaint}"
    if error.context and "flow" in error.context:
        complaint += "; within {} and [] a ${NAME} goes in quotes"
    return complaint


def replaced(document: Document, replacement: Callable[[KeyPath, str], Any]) -> Document:
    """The document with every text passed through `replacement`; a ValueError becomes a problem, and the text None."""
    problems: list[Problem] = []

    def walk(value: Any, path: KeyPath) -> Any:
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
    """YAML without aliases, nine lines of which can stand for a billion values, and without nesting beyond _DEEPEST,
    which would reach Python's recursion limit. No settings file needs either.
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


class _YamlReading:
    """Walks YAML's nodes: they have line numbers, values do not."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {(): 1}
        self.problems: list[Problem] = []

    def document(self, text: str) -> Any:
        self._loader = _Loader(text)
        try:
            node = self._loader.get_single_node()
            return {} if node is None else self._value(node, ())
        finally:
            self._loader.dispose()

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        if node.tag not in _TAGS:
            self._problem(node, path, f"the YAML tag {node.tag} is not supported; remove it")
            return None
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            # The text as it is written: YAML would read the key `on` as True. No key is a list or a mapping.
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

    def _item(self, node: yaml.Node, path: KeyPath) -> Any:
        self.lines[path] = node.start_mark.line + 1
        return self._value(node, path)

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        if node.tag.endswith((":timestamp", ":str")):
            return self._text(node)  # no setting is a date
        try:
            return self._loader.construct_object(node)
        except ValueError:
            self._problem(node, path, f"{node.value!r} is not a value, put it in quotes if it is text")
            return None

    def _text(self, node: yaml.Node) -> str:
        r"""JSON's surrogate pairs, such as \\ud83d\\ude00, become one character."""
        text: str = node.value
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def _problem(self, node: yaml.Node, path: KeyPath, text: str) -> None:
        self.problems.append(Problem(node.start_mark.line + 1, path, text))
