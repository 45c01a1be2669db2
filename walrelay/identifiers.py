"""Names of PostgreSQL's things: as people write them, as the catalog has them, as SQL takes them."""

import re

_IDENTIFIER = r'"(?:[^"]|"")+"|[^\W\d][\w$]*'
_QUALIFIED = re.compile(rf"(?:({_IDENTIFIER})\.)?({_IDENTIFIER})")
_NAME_BYTES = 63  # PostgreSQL cuts a longer name off (NAMEDATALEN - 1), and then it is another name


def identifier(name: str) -> str:
    """`name` as a quoted identifier."""
    if "\0" in name:
        raise ValueError("a name cannot contain the zero byte")
    return '"' + name.replace('"', '""') + '"'


def name(text: str) -> str:
    """A name as the catalog holds it, without quotes; ValueError for what is none."""
    if not text or len(text.encode()) > _NAME_BYTES:
        raise ValueError(f"{text!r} is not a name: 1 to {_NAME_BYTES} bytes")
    return text


def qualified_name(text: str) -> tuple[str, str]:
    """Schema and table of `table`, `schema.table` or `"My Schema"."Out box"`; the schema is public if left out."""
    match = _QUALIFIED.fullmatch(text)
    if match is None:
        raise ValueError(f"""{text!r} is not a table: write schema.table, or '"My Schema"."My Table"'""")
    return _identified(match[1] or "public"), _identified(match[2])


def _identified(identifier: str) -> str:
    if identifier.startswith('"'):
        return name(identifier[1:-1].replace('""', '"'))
    if re.search("[A-Z]", identifier):  # SQL would fold it, an ORM would not: two tables, one spelling
        raise ValueError(
            f"{identifier!r} has capitals: write {identifier.lower()},"
            f" or '\"{identifier}\"' if it was created in double quotes"
        )
    return name(identifier)
