"""What the sections of the settings file share, and values beyond their type, such as names as PostgreSQL takes
them.
"""

import ast
import inspect
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from string import Formatter
from textwrap import dedent
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SecretStr,
    SerializeAsAny,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from walrelay import publish
from walrelay.identifiers import name, qualified_name
from walrelay.postgres.dsn import conninfo_fault
from walrelay.route import FIELDS
from walrelay.route.rules import templates

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class SectionError(ValueError):
    """A fault of several settings together; `path`: which setting to change, from the section that found it."""

    def __init__(self, path: tuple[str | int, ...], text: str) -> None:
        super().__init__(text)
        self.path = path


class Section(BaseModel):
    """Frozen; refuses unknown keys; its errors do not quote values, which may hold a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The docstring of each setting is its description."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for setting, text in docstrings(cls).items():
            properties[cls.model_fields[setting].alias or setting]["description"] = text
        return schema


@cache
def docstrings(model: type) -> dict[str, str]:
    """By setting: the docstring below it, which is its documentation. Read from the source when somebody asks: pydantic
    can do that too (`use_attribute_docstrings`), but does it whenever a model is made.
    """
    found = dict[str, str]()
    for each in reversed(model.__mro__):
        if issubclass(each, Section):
            found |= _own_docstrings(each)
    return found


def _own_docstrings(model: type) -> dict[str, str]:
    (definition,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for statement, below in pairwise(definition.body):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(setting)), ast.Expr(ast.Constant(str(text))):
                found[setting] = inspect.cleandoc(text)
    return found


_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *([a-z]+)")
_LONGEST = 100 * 366 * 86_400.0  # seconds
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def connection_string(text: str) -> str:
    """A connection string that libpq understands. No error shows it: it may hold a password."""
    if re.match(r"postgres(ql)?://", text) or "=" in text.partition("://")[0]:
        if fault := conninfo_fault(text):
            raise ValueError(f"is not a connection string that libpq understands: {fault}")
        return text
    if not text.strip():
        raise ValueError("is empty; write postgresql://user@host/database")
    if text.startswith("postgres") and "://" in text:
        raise ValueError("libpq takes no driver in the scheme; write postgresql://user@host/database")
    raise ValueError("is not a libpq connection string; write postgresql://user@host/database")


def slot_name(text: str) -> str:
    """A replication slot's name, by PostgreSQL's rule."""
    if not _SLOT.fullmatch(text):
        raise ValueError(f"{text!r} is no slot name: 1 to 63 of the characters a-z, 0-9 and _")
    return text


def duration(text: str) -> float:
    """Seconds of `7d`, `12h`, `90 min`, `1.5h`, `30s`, `2w`."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS or not float(match[1]):
        raise ValueError(f"{text!r} is not a duration: write a number and s, m, h, d or w, as in 7d")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is longer than a century")
    return seconds


def topic_template(text: str) -> str:
    """A template with fields of walrelay.route only, as plain names: str.format could also reach attributes."""
    if not text.strip():
        raise ValueError("is empty; write a topic, as in outbox.event.{aggregate_type}")
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}; a literal brace is doubled: {{{{ or }}}}") from None
    for _, field, spec, conversion in pieces:
        if field is not None:
            _check_field(field, spec, conversion)
    return text


def checked(check: Callable[[str], object]) -> Callable[[str], str]:
    """A validator that leaves the text as it is."""

    def validated(text: str) -> str:
        check(text)
        return text

    return validated


def _rule_template(text: str) -> None:
    if not text:
        raise ValueError("is empty; write a template, as in orders.{type|kebab}")
    list(templates.parse(text))


def _check_field(field: str, spec: str | None, conversion: str | None) -> None:
    if field not in FIELDS:
        known = ", ".join(f"{{{known}}}" for known in FIELDS)
        raise ValueError(f"{{{field}}} is not a field of the template; known are {known}")
    if spec or conversion:
        raise ValueError(f"write {{{field}}} alone in the braces, without ':' or '!'")


def _secret_connection_string(secret: SecretStr) -> SecretStr:
    connection_string(secret.get_secret_value())
    return secret


def _table_name(text: str) -> str:
    qualified_name(text)
    return text


def _number(value: Any) -> Any:
    """A Literal of numbers takes no text, but `${NAME}` always yields text. Python also takes true for 1."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return str(value).lower() if isinstance(value, bool) else value


def _duration(value: Any) -> Any:
    """A number without a unit is refused."""
    if isinstance(value, str):
        return duration(value)
    raise ValueError(f"{value!r} is not a duration: write a number and s, m, h, d or w, as in 7d")


ConnectionString = Annotated[SecretStr, AfterValidator(_secret_connection_string)]
Name = Annotated[str, AfterValidator(name)]
SlotName = Annotated[str, AfterValidator(slot_name)]
TableName = Annotated[str, AfterValidator(_table_name)]
Template = Annotated[str, AfterValidator(topic_template)]
RuleTemplate = Annotated[str, AfterValidator(checked(_rule_template))]
AnyTemplate = Annotated[str, AfterValidator(checked(lambda text: list(templates.parse(text))))]
FormatVersion = Annotated[Literal[1, 2], BeforeValidator(_number)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False, json_schema_extra={"unit": "seconds"})]
Duration = Annotated[float, BeforeValidator(_duration), WithJsonSchema({"type": "string"})]
"""Seconds; written as `7d`, `12h`, `90m`."""


def plain_name(what: str) -> Callable[[str], None]:
    """A check that a text can be the name of that; ValueError where it cannot."""

    def check(text: str) -> None:
        if not _PLAIN_NAME.fullmatch(text):
            raise ValueError(f"{text!r} is no name of {what}: 1 to 63 letters, digits, '_', '.' and '-'")

    return check


def sink_model(kind: str) -> type[BaseModel]:
    """The settings model of that kind of sink; ValueError for one that is not installed or cannot be imported."""
    if kind not in publish.installed():
        raise ValueError(f"there is no sink of kind {kind!r}; installed are {', '.join(publish.installed())}")
    try:
        model: type[BaseModel] = publish.load(kind).settings
    except ImportError as error:
        raise ValueError(f"the sink {kind!r} cannot be imported: {error}") from error
    return model


def _usable(kind: str) -> str:
    sink_model(kind)
    return kind


def _written(kind: Any) -> Any:
    """A kind that was left out must not become the sink that throws everything away."""
    if kind is None:
        raise ValueError('is empty; the sink that keeps nothing is written "null", in quotes')
    return kind


class SinkKind(Section, extra="ignore"):
    """The broker: `kind`, and beside it the settings of that kind of sink."""

    kind: Annotated[str, BeforeValidator(_written), AfterValidator(_usable)]
    """Which sink: the name of an installed plug-in."""


class SinkSettings(Section):
    """The section as it was read: `settings` is an instance of the plug-in's own model."""

    kind: str
    settings: SerializeAsAny[BaseModel]

    @model_validator(mode="before")
    @classmethod
    def _through_the_plugin(cls, section: Any) -> Any:
        """The plug-in's ValidationErrors pass through: pydantic reports their fields as if they were this model's."""
        if not isinstance(section, dict) or isinstance(section.get("settings"), BaseModel):
            return section
        kind = SinkKind.model_validate(section).kind
        fields = {key: value for key, value in section.items() if key != "kind"}
        return {"kind": kind, "settings": sink_model(kind).model_validate(fields)}
