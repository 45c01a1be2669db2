"""JSON payloads as structures with schemas (`table.expand.json.payload`), as the router infers them."""

import json
from collections.abc import Mapping
from typing import Any

from walrelay.json_text import NestedTooDeeply, refuse_depth
from walrelay.route.debezium.connect import Schema, Value, java_double


class NotExpanded(Exception):
    """The payload stays the text that it is."""


class NotConverted(Exception):
    """The router has a schema that the payload does not fit: Debezium stops at such a row for ever."""


def expanded(text: str, *, keep_nulls: bool) -> tuple[Schema | None, Value]:
    """The structure. NotExpanded, or NotConverted. `keep_nulls`: else members that are null are left out."""
    if not text.startswith(("{", "[")):
        raise NotExpanded
    try:
        refuse_depth(text)
        node, _ = _JSON.raw_decode(text)  # Jackson does not look at what follows either
        schema = _schema("payload", node, keep_nulls)
        if schema is not None and schema.type == "struct":
            return schema, _value(node, schema)
    except (NestedTooDeeply, RecursionError):
        raise NotConverted(str(NestedTooDeeply())) from None
    except ValueError:
        raise NotExpanded from None
    if schema is None:
        return None, text
    raise NotConverted("it is a list")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_JSON = json.JSONDecoder(parse_constant=_refuse)
_KINDS = {str: "string", bool: "boolean", list: "array", dict: "object", int: "number", float: "number"}


def _schema(key: str, node: Any, keep_nulls: bool) -> Schema | None:
    """None for what is left out; ValueError for what is not expanded."""
    match node:
        case None:
            return Schema("bytes") if keep_nulls else None
        case str():
            return Schema("string")
        case bool():
            return Schema("boolean")
        case int() if -(2**31) <= node < 2**31:
            return Schema("int32")
        case int() if -(2**63) <= node < 2**63:
            return Schema("int64")
        case int() | float():
            return Schema("double")
        case list():
            return Schema("array", items=_items(key, node, keep_nulls)) if node else None
    fields = list[tuple[str, Schema]]()
    for name, value in node.items():
        if not name:
            raise ValueError("a field without a name")
        schema = _schema(f"{key}.{name}" if key else name, value, keep_nulls)
        if schema is not None:
            fields.append((name, schema))
    return Schema("struct", name=key or None, fields=tuple(fields))


def _items(key: str, nodes: list[Any], keep_nulls: bool) -> Schema:
    some = [node for node in nodes if node is not None]
    if len({_KINDS[type(node)] for node in some}) > 1:
        raise ValueError("not a homogenous array")
    if some and isinstance(some[0], dict):
        return _merged([_schema(key, node, keep_nulls) for node in some])
    schemas = [_schema("", node, keep_nulls) for node in some] or [_schema("", None, keep_nulls)]
    if schemas[0] is None:
        raise ValueError("an array without a schema")
    if _KINDS.get(type(nodes[0])) == "number" and len(set(schemas)) > 1:
        raise ValueError("numbers of different types")
    return schemas[0]


def _merged(schemas: list[Schema | None]) -> Schema:
    """One for all objects of a list, in the order in which fields first appear."""
    found = [schema for schema in dict.fromkeys(schemas) if schema is not None]
    if len(found) == 1:
        return found[0]
    fields = dict[str, Schema]()
    for schema in found:
        for name, of in schema.fields:
            known = fields.get(name)
            if known is None or (known.type == "bytes" and of.type != "bytes"):
                fields[name] = of
            elif known.type == of.type == "struct" and known != of:
                fields[name] = _merged([known, of])._replace(optional=True)
    return found[0]._replace(optional=False, fields=tuple(fields.items()))


def _value(node: Any, schema: Schema) -> Value:
    if node is None:
        if not schema.optional:
            raise NotConverted("a list of objects holds null beside different objects")
        return None
    if isinstance(node, dict) and schema.type == "struct":
        return {name: _value(node[name], of) for name, of in schema.fields if name in node}
    if isinstance(node, list) and schema.type == "array" and schema.items is not None:
        return tuple(_value(each, schema.items) for each in node)
    found = _schema("", node, keep_nulls=True) if not isinstance(node, Mapping | list) else None
    if found is None or found.type != schema.type or (isinstance(node, int) and schema.type == "double"):
        raise NotConverted(f"a value does not fit the type {schema.type} that other items of its list have")
    return java_double(node) if isinstance(node, float) else node
