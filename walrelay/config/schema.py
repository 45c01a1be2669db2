"""The settings file as JSON Schema, so that editors complete it: generated from the models."""

from typing import Any

from pydantic.json_schema import models_json_schema

from walrelay import publish
from walrelay.config.models import Settings
from walrelay.config.sink import SinkKind, sink_model

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
    return {"$schema": _DIALECT, **schema, "title": "walrelay.yaml"}


def described() -> Schema:
    """The schema of what the settings are in the end, without the references that may stand for them."""
    models = {kind: sink_model(kind) for kind in publish.installed()}
    inputs = [(model, "validation") for model in (Settings, SinkKind, *models.values())]
    references, shared = models_json_schema(inputs)  # type: ignore[arg-type]  # a list is invariant
    definitions: dict[str, Schema] = shared["$defs"]

    def definition(model: Any) -> Schema:
        return definitions[references[model, "validation"]["$ref"].rpartition("/")[2]]

    settings = dict(definition(Settings))
    sinks = [_sink(kind, definition(model), definition(SinkKind)) for kind, model in models.items()]
    settings["properties"] = {**settings["properties"], "sink": {"oneOf": sinks}}
    return {**settings, "$defs": definitions}


def _sink(kind: str, settings: Schema, shared: Schema) -> Schema:
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
