"""The options name one table, whatever it is called: add-tables is read here as the plugin reads it."""

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from walrelay.wire import wal2json

BLANKS = " \t\n\v\f\r"

names = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]) | st.sampled_from("\\,.*\"' \t\n"), min_size=1
)


class Selected(NamedTuple):
    """One item of add-tables; None stands for every schema, or every table."""

    schema: str | None
    table: str | None


def selected(add_tables: str) -> list[Selected]:
    """What string_to_SelectTable and parse_table_identifier of wal2json.c make of the value of add-tables."""
    return [identifier(item) for item in items(add_tables)]


def items(value: str) -> list[str]:
    """The items between commas, escapes still in them; a blank ends an item, and a second word is an error."""
    found = []
    at = 0
    while True:
        at = skip_blanks(value, at)
        start = at
        while at < len(value) and value[at] not in "," + BLANKS:
            at += 2 if value[at] == "\\" else 1
        assert at > start, "an empty item"
        found.append(value[start:at])
        at = skip_blanks(value, at)
        if at >= len(value):
            return found
        assert value[at] == ",", "two words in one item"
        at += 1


def skip_blanks(value: str, at: int) -> int:
    while at < len(value) and value[at] in BLANKS:
        at += 1
    return at


def identifier(item: str) -> Selected:
    schema = table = ""
    at = 0
    while item[at] != ".":
        at += item[at] == "\\"
        schema += item[at]
        at += 1
    rest = item[at + 1 :]
    at = 0
    while at < len(rest):
        at += rest[at] == "\\"
        table += rest[at]
        at += 1
    return Selected(None if item.startswith("*.") else schema, None if rest == "*" else table)


@given(names, names)
@example("*", "*")
@example("Odd, Schema.", "ta b\\,\"'.*x")
@example("\\", "\\\\.")
def test_add_tables_names_exactly_the_outbox_however_odd_its_name(schema: str, table: str) -> None:
    add_tables = dict(wal2json.options(2, schema, table))["add-tables"]
    assert selected(add_tables) == [Selected(schema, table)]


def test_a_plain_name_stands_as_it_is() -> None:
    assert dict(wal2json.options(2, "public", "outbox"))["add-tables"] == "public.outbox"


def test_both_formats_ask_for_positions_clocks_and_inserts_only() -> None:
    for version in (1, 2):
        asked = dict(wal2json.options(version, "public", "outbox"))
        assert asked["format-version"] == str(version)
        assert asked["actions"] == "insert"
        for name in ("include-transaction", "include-lsn", "include-xids", "include-timestamp"):
            assert asked[name] == "true"


def test_types_come_as_oids_because_a_quoted_type_name_breaks_the_json() -> None:
    asked = dict(wal2json.options(2, "public", "outbox"))
    assert (asked["include-types"], asked["include-type-oids"]) == ("false", "true")
