"""Columns as Debezium reads them: their types, and what stands in the place of NULL."""

import re
from collections.abc import Callable
from typing import NamedTuple

from walrelay.route.debezium.connect import Schema, Value
from walrelay.route.debezium.types import CatalogColumn, Modes, reading

_CONSTANT = re.compile(r"(?:'((?:[^']|'')*)'|\(?(-?\d[\d.e+]*)\)?|(true|false))(?:::[\w .\"()\[\],]+)?", re.DOTALL)
_COMPUTED = {
    **dict.fromkeys((25, 1043, 1042, 142), ""),  # text, varchar, char, xml
    **dict.fromkeys((114, 3802), "{}"),
    **dict.fromkeys((21, 23, 20, 700, 701, 1560, 1562), "0"),
    16: "f",
    1082: "1970-01-01",
    1083: "00:00:00",
    **dict.fromkeys((1114, 1184), "1970-01-01 00:00:00"),
    1186: "00:00:00",
    1700: "0.0",
    2950: "00000000-0000-0000-0000-000000000000",
}
"""What Debezium takes for a default that is computed, as now() is; it reads no default of another type."""


class ColumnReader(NamedTuple):
    """`read`: from PostgreSQL's text, which may be NULL; ValueError for a value that has no counterpart. `is_verbatim`:
    whether that text is the value.
    """

    schema: Schema
    read: Callable[[str | None], Value]
    is_verbatim: bool


def column_reader(column: CatalogColumn, modes: Modes) -> ColumnReader | None:
    """None for a type that has no counterpart."""
    found = reading(column, modes)
    if found is None:
        return None
    schema, parse = found
    default = _default(column, schema.type, parse)
    schema = schema._replace(optional=not column.not_null, default=default)
    return ColumnReader(schema, lambda text: default if text is None else parse(text), parse is str)


def _default(column: CatalogColumn, kind: str, parse: Callable[[str], Value]) -> Value:
    """Debezium reads the default of a column as a value, and puts it in the place of NULL."""
    expression, is_enum = column.default, column.labels is not None
    if expression is None or expression.startswith("NULL") or kind in ("array", "struct") or column.is_domain:
        return None
    if not is_enum and column.type_oid not in _COMPUTED:
        return None
    match = _CONSTANT.fullmatch(expression)
    if match is None:
        return None if is_enum else parse(_COMPUTED[column.type_oid])
    text = next(part for part in match.groups() if part is not None)
    try:
        return parse(text.replace("''", "'"))
    except ValueError:
        return None
