"""Rules that drop as the publication's row filter: the server then does not send the rows that they drop.

Only the rules at the top of the list count, up to the first that publishes. Each becomes one part of the filter,
`(condition AND condition) IS NOT TRUE`, so a row is withheld exactly if the rule matches: where a value is NULL, no
condition is true. A value is compared as the text that the plugin sends, by bytes (COLLATE "C").

PostgreSQL prints a filter in one way, so one that was made here is read back as conditions, and compared with the rules
of today by what they mean. Any other filter is somebody else's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog
from walrelay.route.rules import Condition, Field, Rule
from walrelay.wiring import Wiring

Conditions = tuple[Condition, ...]
"""All of them hold. The field of a condition is a quoted column, or as in the rule if it is none."""

_BUILT_IN = 16384  # the first OID of what users made, which row filters may not use
# The types whose text is the same in every session, and the function that prints them.
_PRINTED = {16: "boolout", 19: "nameout", 20: "int8out", 21: "int2out", 23: "int4out", 1042: "bpcharout"}
_PRINTED |= {1700: "numeric_out", 2950: "uuid_out"}
_TEXT, _VARCHAR = 25, 1043


class Drop(NamedTuple):
    """A rule that drops, at the top of the list; `why` the server cannot do it, empty if it can."""

    rule: str
    conditions: Conditions
    why: str = ""


class FilterColumn(NamedTuple):
    type: int
    collation: int
    generated: bool


def drops(rules: Sequence[Rule], columns: Mapping[str, str | None]) -> tuple[Drop, ...]:
    """The rules that drop before any that publishes. `columns`: by role."""
    found = list[Drop]()
    for rule in rules:
        fields = [Field.parse(condition.field) for condition in rule.when]
        if not rule.drop or any(field.kind == "header" for field in fields):
            break  # a header that cannot be read stops the relay, and would no longer
        settled = [_on_a_column(*each, columns) for each in zip(rule.when, fields, strict=True)]
        found.append(Drop(rule.name, tuple(settled), _why_not(settled)))
    return tuple(found)


def dropped(wiring: Wiring) -> tuple[Drop, ...]:
    """`drops` of a relay's rules."""
    return drops(wiring.rules.routes, wiring.outbox.columns._asdict())


def _on_a_column(condition: Condition, field: Field, columns: Mapping[str, str | None]) -> Condition:
    column = field.name if field.kind == "column" else columns.get(field.name)
    if column is None or field.path or field.kind == "payload":
        return condition
    return condition._replace(field=identifier(column))


def _why_not(conditions: Sequence[Condition]) -> str:
    if not conditions:
        return "it drops every record"
    for condition in conditions:
        if not condition.field.startswith('"'):
            return f"{condition.field} is not a whole column"
        if condition.operator not in ("one_of", "prefix", "exists"):
            return f"a row filter has no {condition.operator.replace('_', ' ')}"
        if any("\0" in value or not _is_text(value) for value in condition.values):
            return f"{condition.field} is compared with what no text in PostgreSQL holds"
    return ""


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def columns_of(catalog: Catalog, table: str) -> dict[str, FilterColumn]:
    """By quoted name."""
    rows = catalog.rows(
        "SELECT attname::text, atttypid::int8, attcollation::int8, attgenerated <> '' FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        table,
    )
    return {identifier(name): FilterColumn(*rest) for name, *rest in rows}


def settled(given: Iterable[Drop], columns: Mapping[str, FilterColumn], encoding: str) -> tuple[Drop, ...]:
    """The same, with what the table's columns and the database's encoding rule out."""
    return tuple(each if each.why else each._replace(why=_unfit(each, columns, encoding)) for each in given)


def _unfit(drop: Drop, columns: Mapping[str, FilterColumn], encoding: str) -> str:
    for condition in drop.conditions:
        column = columns.get(condition.field)
        if column is None:
            return f"there is no column {condition.field}"
        if column.generated:
            return f"{condition.field} is a generated column"
        if column.type >= _BUILT_IN or column.collation >= _BUILT_IN:
            return f"{condition.field} has a type or a collation that is not built in"
        if condition.operator != "exists" and column.type not in {_TEXT, _VARCHAR, *_PRINTED}:
            return f"the text of {condition.field} depends on the session, or has no equality"
        if encoding != "UTF8" and not all(map(str.isascii, condition.values)):
            return f"{condition.field} is compared with other letters than ASCII's, and the database is not in UTF-8"
    return ""


def row_filter(given: Iterable[Drop], columns: Mapping[str, FilterColumn]) -> str:
    """The SQL expression that withholds what these rules drop; empty without any that the server can do."""
    able = [each for each in given if not each.why]
    return " AND ".join(
        f"(({' AND '.join(_sql(condition, columns) for condition in each.conditions)}) IS NOT TRUE)" for each in able
    )


def _sql(condition: Condition, columns: Mapping[str, FilterColumn]) -> str:
    name, type_ = condition.field, columns[condition.field].type
    if condition.operator == "exists":
        return f"{name} IS {'NOT ' if condition.values == ('true',) else ''}NULL"
    printed = f"textin({_PRINTED[type_]}({name}))" if type_ in _PRINTED else f"{name}::text"
    texts = [_literal(value) for value in condition.values]
    if condition.operator == "prefix":
        return f'starts_with({printed} COLLATE "C", {texts[0]})'
    return f'({printed} COLLATE "C") = ANY (ARRAY[{", ".join(texts)}])'


def _literal(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'" if "\\" not in quoted else "E'" + quoted.replace("\\", "\\\\") + "'"


# As PostgreSQL prints it, with standard_conforming_strings.
_NAME = r'(?:"(?:[^"]|"")+"|\w+)'
_STRING = r"'(?:[^']|'')*'"
_VALUE = rf'\((?:{_NAME}|\({_NAME}\)::text|textin\(\w+\({_NAME}\)\)) COLLATE "C"\)'
_CONDITION = (
    rf"(?:\({_VALUE} = ANY \(ARRAY\[{_STRING}::text(?:, {_STRING}::text)*\]\)\)"
    rf"|starts_with\({_VALUE}, {_STRING}::text\)|\({_NAME} IS (?:NOT )?NULL\))"
)
_PART = rf"\((?:{_CONDITION}|\({_CONDITION}(?: AND {_CONDITION})+\)) IS NOT TRUE\)"
_WHOLE = re.compile(rf"{_PART}|\({_PART}(?: AND {_PART})+\)")
_PARTS, _CONDITIONS, _STRINGS = re.compile(_PART), re.compile(_CONDITION), re.compile(_STRING)
_FIELD = re.compile(rf"(?:\(|starts_with\(|::text|textin\(\w+\()*({_NAME})")


def parsed(text: str) -> tuple[Conditions, ...] | None:
    """What a filter withholds, one rule after the other; None for one that was not made here."""
    if not _WHOLE.fullmatch(text):
        return None
    return tuple(tuple(_condition(each[0]) for each in _CONDITIONS.finditer(part[0])) for part in _PARTS.finditer(text))


def _condition(text: str) -> Condition:
    match = _FIELD.match(text)
    assert match is not None
    column = match[1] if match[1].startswith('"') else identifier(match[1])
    rest = text[match.end() :]
    if rest.endswith("NULL)"):
        return Condition(column, "exists", ("true" if "NOT" in rest else "false",))
    values = tuple(each[0][1:-1].replace("''", "'") for each in _STRINGS.finditer(rest))
    return Condition(column, "prefix" if text.startswith("starts_with") else "one_of", values)


def lost(withheld: Iterable[Conditions], given: Sequence[Drop]) -> list[Conditions]:
    """What is withheld although no rule at the top drops it."""
    return [
        each
        for each in withheld
        if not all(any(_all_of(drop.conditions, one) for drop in given) for one in product(*map(_single, each)))
    ]


def sent(withheld: Sequence[Conditions], given: Iterable[Drop]) -> list[Drop]:
    """The rules whose rows the server could withhold, and sends."""
    return [
        drop
        for drop in given
        if not drop.why
        and not all(any(_all_of(each, one) for each in withheld) for one in product(*map(_single, drop.conditions)))
    ]


def _single(condition: Condition) -> list[Condition]:
    """One for each text of `one_of`, so that a rule may be divided, or several be made one."""
    if condition.operator != "one_of":
        return [condition]
    return [condition._replace(values=(value,)) for value in condition.values]


def _all_of(wide: Conditions, narrow: Sequence[Condition]) -> bool:
    """Whether all rows of `narrow` are surely among those of `wide`."""
    return all(any(each.covers(other) for other in narrow) for each in wide)


def words(conditions: Conditions) -> str:
    """For people."""
    return " and ".join(map(_words, conditions))


def _words(condition: Condition) -> str:
    column = condition.field[1:-1].replace('""', '"')
    if condition.operator == "prefix":
        return f"{column} begins with {condition.values[0]!r}"
    return f"{column} is {condition}"
