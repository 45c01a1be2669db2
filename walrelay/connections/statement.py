"""SQL with named parameters, and the forms that the libraries take."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

Parameter = str | bytes | int | float | datetime | list[str | None] | None
Row = tuple[object, ...]

_NAMED = re.compile(r"(?<!:):([a-z_]+)\b")


class Statement(NamedTuple):
    """`text` names its parameters `:like_this`, and casts with CAST: libraries take `::name` for a parameter.

    A driver that prepares statements asks the server for the types of parameters, so text that becomes another type is
    cast twice: `CAST(CAST(:id AS text) AS uuid)`. `answers`: it returns rows; in a pipeline nothing waits for a
    statement that does not.
    """

    text: str
    parameters: Mapping[str, Parameter] = {}
    answers: bool = False

    def pyformat(self) -> str:
        """The SQL with `%(name)s` parameters, for psycopg and Django."""
        return _pyformat(self.text)

    def numbered(self) -> tuple[str, list[Parameter]]:
        """The SQL with `$1` parameters and their values in order, for asyncpg."""
        text, names = _numbered(self.text)
        return text, [self.parameters[name] for name in names]


@lru_cache(256)
def _pyformat(text: str) -> str:
    return _NAMED.sub(r"%(\1)s", text.replace("%", "%%"))


@lru_cache(256)
def _numbered(text: str) -> tuple[str, tuple[str, ...]]:
    names = tuple(dict.fromkeys(_NAMED.findall(text)))
    return _NAMED.sub(lambda match: f"${names.index(match[1]) + 1}", text), names
