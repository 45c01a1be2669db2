"""The settings for people and editors: an example to start from, the reference and the JSON Schema."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

from pydantic.json_schema import models_json_schema

from walrelay import publish
from walrelay.config import presets
from walrelay.config.databases import DatabaseQuery
from walrelay.config.models import Settings
from walrelay.config.values import SinkKind, sink_model

Schema = dict[str, Any]

_DIALECT = "http://json-schema.org/draft-07/schema#"  # the newest that editors' YAML support knows in full
_REFERENCE: Schema = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^{}]*)?\}"}
_WRITTEN_AS_TEXT = frozenset({"number", "integer", "boolean"})


def json_schema() -> Schema:
    """The whole file's schema, with every installed kind of sink.

    `${NAME}` is allowed wherever a value is, except for `sink.kind`: the kind decides which keys an editor
    offers, and an editor does not know the environment.
    """
    schema = _with_references(described())
    definitions, properties, required = schema["$defs"], schema["properties"], schema.pop("required")
    relay = {"type": "object", "properties": _part(properties), "additionalProperties": False}
    several: Schema = {
        "defaults": {"$ref": "#/$defs/RelayPart", "description": "What every relay has."},
        "relays": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/RelayPart"},
            "description": "Several relays by name: each has what is the whole file otherwise.",
        },
    }
    databases: Schema = {
        "anyOf": [
            {"type": "object", "additionalProperties": {"type": "string"}, "not": {"required": ["query"]}},
            _with_references(DatabaseQuery.model_json_schema()),
        ],
        "description": "A relay of the defaults for each database: names with DSNs, or a query for both.",
    }
    return {
        "$schema": _DIALECT,
        **schema,
        "title": "walrelay.yaml",
        "properties": {**properties, **several, "databases": databases},
        "anyOf": [
            {"required": required},
            {"required": ["sinks" if each == "sink" else each for each in required]},
            {"required": ["relays"]},
            {"required": ["databases", "defaults"]},
        ],
        "$defs": {
            **definitions,
            **{f"{name}Part": _part(each) for name, each in definitions.items()},
            "RelayPart": relay,
        },
    }


def _part(schema: Any) -> Any:
    """The schema of what may have its other keys elsewhere: nothing is required."""
    match schema:
        case dict():
            kept = {key: value for key, value in schema.items() if key != "required" or isinstance(value, dict)}
            return {key: f"{value}Part" if key == "$ref" else _part(value) for key, value in kept.items()}
        case list():
            return [_part(each) for each in schema]
        case _:
            return schema


def described() -> Schema:
    """The schema of what the settings are in the end, without the references that may stand for them."""
    models = {kind: sink_model(kind) for kind in publish.installed()}
    inputs = [(model, "validation") for model in (Settings, SinkKind, *models.values())]
    references, shared = models_json_schema(inputs)  # type: ignore[arg-type]  # a list is invariant
    definitions: dict[str, Schema] = shared["$defs"]

    def definition(model: Any) -> Schema:
        return definitions[references[model, "validation"]["$ref"].rpartition("/")[2]]

    settings = dict(definition(Settings))
    sinks = [_sink_schema(kind, definition(model), definition(SinkKind)) for kind, model in models.items()]
    several = {**settings["properties"]["sinks"], "type": "object", "additionalProperties": {"oneOf": sinks}}
    several.pop("anyOf", None)
    settings["properties"] = {**settings["properties"], "sink": {"oneOf": sinks}, "sinks": several}
    return {**settings, "$defs": definitions}


def _sink_schema(kind: str, settings: Schema, shared: Schema) -> Schema:
    """The section for one kind: `kind` itself and beside it the plug-in's settings."""
    properties = {
        "kind": {**shared["properties"]["kind"], "const": kind},
        **settings.get("properties", {}),
    }
    return {**settings, "properties": properties, "required": ["kind", *settings.get("required", [])]}


def _with_references(schema: Schema) -> Schema:
    """`schema`, with `${NAME}` accepted beside each number, truth value, choice and pattern in it."""
    walked = {keyword: _walked(keyword, value) for keyword, value in schema.items()}
    if isinstance(unit := walked.pop("unit", None), str):
        walked["description"] = f"{walked.get('description', '')} ({unit})".strip()
    if schema.get("type") not in _WRITTEN_AS_TEXT and not {"enum", "pattern"} & schema.keys():
        return walked
    outside: Schema = {about: walked.pop(about) for about in ("description", "default", "title") if about in walked}
    return {**outside, "anyOf": [walked, _REFERENCE]}


def _walked(keyword: str, value: Any) -> Any:
    match keyword:
        case "properties" | "$defs":
            return {name: _with_references(inner) for name, inner in value.items()}
        case "anyOf" | "oneOf" | "allOf":
            return [_with_references(inner) for inner in value]
        case "items" | "additionalProperties" if isinstance(value, dict):
            return _with_references(value)
        case _:
            return value


_HEAD = """# Settings

One YAML file, its sections in the order the data flows. `walrelay config example > walrelay.yaml` writes one to
start from, `walrelay config check` reports every problem in it with its line, and `walrelay config schema`
prints a JSON Schema with which an editor completes it.

- `${NAME}` anywhere in a value is replaced from the environment; `${NAME:-default}` has a default for a variable
  that is unset or empty; `$${` is a literal `${`.
- A secret written as `file:/run/secrets/name` is read from that file. Secrets are never shown in errors and logs.
- Unknown and repeated keys are errors, and so are YAML aliases.
- A file can have several relays: `relays` has by name what is the whole file otherwise, and `defaults`
  what is merged under each of them (`walrelay docs several-relays`).
- With `databases` instead of `relays` it has a relay of `defaults` for each database, by names or by a query
  (`walrelay docs several-relays`).

This page is generated from the models in `walrelay/config`; a test compares it with them.
"""


class SettingRow(NamedTuple):
    """One setting, every part of it ready to be shown."""

    name: str
    type: str
    default: str
    unit: str
    description: str


_AROUND_A_PRESET = """# outbox, route and routes say what the preset says: a line may be left out, and a changed one
# counts. All other settings: walrelay config example. Check this file with: walrelay config check

source:
  dsn: ${{DATABASE_URL}}              # or file:/run/secrets/dsn; the role needs REPLICATION

{preset}
sink:
  kind: kafka                       # try it without a broker: kind: stdout, and nothing below
  bootstrap_servers: ${{KAFKA_BOOTSTRAP_SERVERS:-localhost:9092}}
"""


def example(preset: presets.PresetName = "walrelay") -> str:
    """A commented walrelay.yaml that works once DATABASE_URL is set."""
    if preset != "walrelay":
        return _AROUND_A_PRESET.format(preset=presets.text(preset))
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
    text = "The broker. `kind` names an installed plug-in; next to it are the settings of that kind."
    return "\n".join([f"## sink\n\n{text}\n", *(_sink(kind, schema) for kind in kinds)])


def _sink(kind: Schema, schema: Schema) -> str:
    rows = list(_rows("sink", kind, schema, required=True))
    return _titled(f"### kind: {kind['properties']['kind']['const']}", _words(kind), rows)


def _titled(title: str, text: str, rows: list[SettingRow]) -> str:
    lines = [title, ""]
    if text:
        lines += [text, ""]
    lines += ["| Setting | Type | Default | Unit | What it does |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _rows(name: str, setting: Schema, schema: Schema, *, required: bool) -> Iterator[SettingRow]:
    """The setting itself, or all those below it."""
    resolved = _resolved(setting, schema)
    if "properties" not in resolved:
        default = "required" if required else _default(resolved)
        yield SettingRow(f"`{name}`", _type(resolved, schema), default, resolved.get("unit", ""), _words(resolved))
        yield from _rows_of_items(name, resolved, schema)
        for section in (_resolved(each, schema) for each in resolved.get("anyOf", ())):
            for key, inner in section.get("properties", {}).items():
                yield from _rows(f"{name}.{key}", inner, schema, required=False)
        return
    for key, inner in resolved["properties"].items():
        yield from _rows(f"{name}.{key}", inner, schema, required=key in resolved.get("required", ()))


def _rows_of_items(name: str, setting: Schema, schema: Schema) -> Iterator[SettingRow]:
    """The settings in each item of a list, or in each value of a mapping."""
    for keyword, step in (("items", "[]"), ("additionalProperties", ".*")):
        inner = setting.get(keyword)
        if isinstance(inner, dict) and "properties" in _resolved(inner, schema):
            yield from _rows(f"{name}{step}", inner, schema, required=False)


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
