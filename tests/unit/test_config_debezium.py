"""`debezium:` in the settings: what cannot be used is said with its line, and the columns come from the options."""

import pytest

from walrelay.compose import wiring
from walrelay.config import Settings, parse
from walrelay.errors import SettingsError

HEAD = "source: {dsn: postgresql://localhost/shop}\nsink: {kind: memory}\n"


def read(options: str, more: str = "") -> Settings:
    return parse(f"{HEAD}debezium: {{{options}}}\n{more}", "walrelay.yaml", {})


def problem(options: str, more: str = "") -> str:
    with pytest.raises(SettingsError) as caught:
        read(options, more)
    return str(caught.value).removeprefix("walrelay.yaml:")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("route.topic.regex: '(('", "3: debezium.route.topic.regex: '((' is not a regular expression:"),
        (r"route.topic.regex: '\p{L}+'", r"3: debezium.route.topic.regex: '\\p{L}+': '\\p' is read by Java only;"),
        ("route.topic.replacement: 'a.$2'", "3: debezium.route.topic.replacement: 'a.$2' names the group 2, which"),
        (
            "route.topic.replacement: 'a.$${x}'",
            "3: debezium.route.topic.replacement: 'a.${x}' names the group 'x', which",
        ),
        (
            "route.topic.replacement: 'a.$'",
            "3: debezium.route.topic.replacement: 'a.$': '$' must be followed by {NAME}",
        ),
        (
            "table.fields.additional.placement: 'n:partition:'",
            "3: debezium.table.fields.additional.placement: a sink of kind 'memory' has no partitions: leave out",
        ),
        (
            "table.fields.additional.placement: 'n:body, n'",
            "3: debezium.table.fields.additional.placement: 'n:body' is not column:header, column:envelope, column",
        ),
        (
            "table.expand.json.payload: true",
            "3: debezium: value.converter is string, which cannot hold an expanded payload: set json",
        ),
        (
            "table.fields.additional.placement: 'n:envelope', value.converter: json_with_schemas",
            "3: debezium: topic.prefix is missing: the schema of the envelope is named after it",
        ),
        (
            "time.precision.mode: structured",
            "3: debezium.time.precision.mode: 'structured' is not one of adaptive, adaptive_time_microseconds,",
        ),
        ("money.fraction.digits: -1", "3: debezium.money.fraction.digits: -1 should be greater than or equal to 0"),
        ("table.op.invalid.behavior: warn", "3: debezium: unknown key 'table.op.invalid.behavior'; did you mean"),
    ],
)
def test_an_option_that_cannot_be_used_is_named_with_its_line(options: str, expected: str) -> None:
    assert problem(options).startswith(expected), problem(options)


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("route: {topic: x}", "route"),
        ("routes: [{name: a}]", "routes"),
        ("outbox: {columns: {id: x}}", "outbox.columns"),
    ],
)
def test_what_the_options_replace_is_refused_beside_them(more: str, path: str) -> None:
    assert problem("", more).startswith(f"4: {path}: has no meaning beside `debezium`, whose options say that:")


def test_the_columns_and_topics_come_from_the_options() -> None:
    made = wiring(
        read(
            "table.field.event.id: event, route.by.field: kind, table.field.event.timestamp: at,"
            " table.fields.additional.placement: 'kind:header, tenant:envelope:t', value.converter: json,"
            " route.topic.replacement: 'a.{b}.$1'"
        )
    )
    assert made.needed.columns._asdict() == dict.fromkeys(made.needed.columns._fields) | {
        "id": "event",
        "aggregate_type": "kind",
        "aggregate_id": "aggregateid",
        "payload": "payload",
    }
    assert made.needed.extra == ("tenant", "at")
    assert made.rules.topics == ["a.{b}.*"]
    assert made.rules.fields >= {"aggregate_type"}
    assert (made.run_id or "")[14] == "7"
