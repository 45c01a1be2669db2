"""The settings for people: a file to start from, and the reference, generated from the models."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

from walrelay.config.schema import Schema, described

_HEAD = """# Settings

One YAML file, its sections in the order the data flows. `walrelay config example > walrelay.yaml` writes one to
start from, `walrelay config check` reports every problem in it with its line, and `walrelay config schema`
prints a JSON Schema with which an editor completes it.

- `${NAME}` anywhere in a value is replaced from the environment; `${NAME:-default}` has a default for a variable
  that is unset or empty; `$${` is a literal `${`.
- A secret written as `file:/run/secrets/name` is read from that file. Secrets are never shown in errors and logs.
- Unknown and repeated keys are errors, and so are YAML aliases.

This page is generated from the models in `walrelay/config`; a test compares it with them.
"""


class Row(NamedTuple):
    """One setting, every part of it ready to be shown."""

    name: str
    type: str
    default: str
    unit: str
    description: str


def example() -> str:
    """A commented walrelay.yaml that works once DATABASE_URL is set."""
    return files("walrelay.config").joinpath("example.yaml").read_text(encoding="utf-8")


def reference() -> str:
    """The page of the manual with every setting, including those of each installed kind of sink."""
    schema = described()
    sections = [_section(name, schema) for name in schema["properties"] if name != "sink"]
    sections.insert(list(schema["properties"]).index("sink"), _sinks(schema))
    return "\n".join([_HEAD, *sections])


def _section(name: str, schema: Schema) -> str:
    section = _resolved(schema["properties"][name], schema)
    rows = list(_rows(name, section, schema, required=name in schema["required"]))
    text = _words(section) if "properties" in section else ""
    return _titled(f"## {name}", text, rows)


def _sinks(schema: Schema) -> str:
    kinds = schema["properties"]["sink"]["oneOf"]
    text = "The broker. `kind` names an installed plug-in, and beside it stand the settings of that kind."
    return "\n".join([f"## sink\n\n{text}\n", *(_sink(kind, schema) for kind in kinds)])


def _sink(kind: Schema, schema: Schema) -> str:
    rows = list(_rows("sink", kind, schema, required=True))
    return _titled(f"### kind: {kind['properties']['kind']['const']}", _words(kind), rows)


def _titled(title: str, text: str, rows: list[Row]) -> str:
    lines = [title, ""]
    if text:
        lines += [text, ""]
    lines += ["| Setting | Type | Default | Unit | What it does |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _rows(name: str, setting: Schema, schema: Schema, *, required: bool) -> Iterator[Row]:
    """The setting itself, or all those below it."""
    resolved = _resolved(setting, schema)
    if "properties" not in resolved:
        default = "required" if required else _default(resolved)
        yield Row(f"`{name}`", _type(resolved, schema), default, resolved.get("unit", ""), _words(resolved))
        return
    for key, inner in resolved["properties"].items():
        yield from _rows(f"{name}.{key}", inner, schema, required=key in resolved.get("required", ()))


def _resolved(setting: Schema, schema: Schema) -> Schema:
    if "$ref" not in setting:
        return setting
    definition: Schema = schema["$defs"][setting["$ref"].rpartition("/")[2]]
    return {**definition, **setting}


def _type(setting: Schema, schema: Schema) -> str:
    """The type in words; a choice as its alternatives."""
    match setting:
        case {"const": value}:
            return f"`{value}`"
        case {"enum": choices}:
            return ", ".join(f"`{choice}`" for choice in choices)
        case {"anyOf": alternatives}:
            return " or ".join(dict.fromkeys(_type(_resolved(each, schema), schema) for each in alternatives))
        case {"format": "password"}:
            return "secret"
        case {"type": "array", "items": items}:
            return f"list of {_type(_resolved(items, schema), schema)}"
        case {"type": name}:
            return {"string": "text", "boolean": "true or false", "object": "mapping"}.get(name, str(name))
        case _:
            return ""


def _default(setting: Schema) -> str:
    return f"`{_yaml(setting['default'])}`" if "default" in setting else ""


def _yaml(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def _words(setting: Schema) -> str:
    return " ".join(str(setting.get("description", "")).split())
