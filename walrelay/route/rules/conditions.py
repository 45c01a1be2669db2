"""The conditions of a rule: what a field has to be. All of them have to hold."""

import re
from collections.abc import Callable, Set
from fnmatch import translate
from typing import Any, Literal, NamedTuple

from walrelay.errors import AS_IT_WAS_WRITTEN
from walrelay.json_text import NestedTooDeeply, has_half_pair
from walrelay.route.backtracking import longest_text
from walrelay.route.rules.fields import ROLES, Compound, Unevaluable, Value, parsed

Operator = Literal["one_of", "prefix", "glob", "regex", "exists", "tags_required", "tags_any_of", "tags_exactly"]
Matches = Callable[[Value], bool]
Search = Callable[[str], re.Match[str] | None]

_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)  # of an array's text
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Condition(NamedTuple):
    """`values`: the texts of one_of, one pattern, `true` or `false` for exists, or tags."""

    field: str
    operator: Operator
    values: tuple[str, ...]

    def __str__(self) -> str:
        quoted = " or ".join(map(repr, self.values))
        match self.operator:
            case "one_of":
                return quoted
            case "exists":
                return "there" if self.values == ("true",) else "missing"
            case "prefix":
                return f"with the prefix {quoted}"
            case "glob" | "regex":
                return f"like the {self.operator} {quoted}"
            case _:
                listed = ", ".join(map(repr, self.values))
                ways = {"tags_required": "all of", "tags_any_of": "any of", "tags_exactly": "exactly"}
                return f"with {ways[self.operator]} the tags {listed}"

    def covers(self, other: "Condition") -> bool:
        """Whether it surely holds where `other` does."""
        if self == other:
            return True
        if self.field != other.field:
            return False
        if self.operator == "exists":
            return self.values == ("true",) and other.operator in ("one_of", "prefix", "glob", "regex")
        if self.operator == "one_of":
            return other.operator == "one_of" and set(other.values) <= set(self.values)
        texts = other.values if other.operator == "one_of" else ()
        if self.operator == "prefix" and other.operator == "prefix":
            texts = other.values
        return bool(texts) and all(map(self.matcher(), texts))

    def matcher(self) -> Matches:
        """Whether a value fulfils it; ValueError for a regular expression that is none."""
        match self.operator:
            case "one_of":
                return frozenset(self.values).__contains__
            case "exists":
                wanted = self.values == ("true",)
                return lambda value: (value is not None) is wanted
            case "prefix":
                (prefix,) = self.values
                return lambda value: type(value) is str and value.startswith(prefix)
            case "glob":
                return _pattern(re.compile(translate(self.values[0])).match)
            case "regex":
                return _pattern(compiled(self.values[0]))
            case _:
                return _tags(self.operator, self.values)


class TextTooLong(Unevaluable):
    """A regular expression could stand still for too long over a text."""

    hint = (
        "Let the expression begin with ^, or have fewer repetitions that can match the same text (`walrelay docs"
        f" routing`); or use prefix, glob or a field inside the text. {AS_IT_WAS_WRITTEN}"
    )


def compiled(pattern: str) -> Search:
    """Finds the regular expression in a text, or raises TextTooLong; ValueError for what is none, and for one that can
    take exponential time.
    """
    try:
        found = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as cause:
        raise ValueError(f"{pattern!r} is not a regular expression: {cause}") from None
    longest = longest_text(found)
    if longest is None:
        return found.search

    def search(text: str) -> re.Match[str] | None:
        if len(text) > longest:
            raise TextTooLong(
                f"the regular expression {pattern!r} could take minutes for a text of {len(text):,} characters, and is"
                f" applied to {longest:,} at most"
            )
        return found.search(text)

    return search


def explained(field: str, value: Value, condition: Condition) -> str:
    """Why a condition does not hold, in words."""
    return f"{field} is {shown(value)}, not {condition}"


def explained_without_contents(field: str, value: Value, condition: Condition) -> str:
    """The same for logs and dead letters, which more people read than the events: no value of a payload, a header or
    a column without a role.
    """
    if isinstance(value, str) and (field == "payload" or field not in ROLES):
        return f"{field} is not {condition}"
    return explained(field, value, condition)


def shown(value: Value) -> str:
    """A value in a message."""
    if value is None:
        return "missing"
    if isinstance(value, Compound):
        return "an object" if isinstance(value.value, dict) else "a list"
    return repr(value if len(value) <= 60 else f"{value[:60]}...")


def _pattern(found: Callable[[str], Any]) -> Matches:
    return lambda value: type(value) is str and found(value) is not None


def tags_of(value: Value) -> Set[str]:
    """The tags in a JSON list, an object (`name=value`) or an array as PostgreSQL prints it."""
    if isinstance(value, str):
        try:
            inside = parsed(value)
        except NestedTooDeeply as why:
            raise Unevaluable(f"its tags cannot be read: {why}") from None
        names = [*inside, *inside.values()] if isinstance(inside, dict) else inside if isinstance(inside, list) else ()
        if has_half_pair(value, *(name for name in names if isinstance(name, str))):
            raise Unevaluable("its tags hold half of a surrogate pair, which is no text")
        if inside is None and value[:1] == "{":
            return _array(value)
    else:
        inside = value.value if isinstance(value, Compound) else None
    if isinstance(inside, dict):
        return {f"{name}={_text(each)}" for name, each in inside.items()}
    return {each for each in inside if isinstance(each, str)} if isinstance(inside, list) else frozenset()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ""


def _array(text: str) -> Set[str]:
    items = (
        plain.strip() if quoted is None else _ESCAPED.sub(r"\1", quoted)
        for quoted, plain in ((match[1], match[2] or "") for match in _ITEM.finditer(text))
    )
    return {item for item in items if item and item != "NULL"}


def _tags(operator: str, wanted: tuple[str, ...]) -> Matches:
    """A tag without a value, `wallet_id`, stands for `wallet_id` with any: `wallet_id=42`."""

    listed = frozenset(wanted)

    def matches(value: Value) -> bool:
        tags = tags_of(value)
        found = listed & (tags | {tag.partition("=")[0] for tag in tags})
        if operator == "tags_any_of":
            return bool(found)
        if found != listed:
            return False
        return operator == "tags_required" or all(tag in listed or tag.partition("=")[0] in listed for tag in tags)

    return matches
