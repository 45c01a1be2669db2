"""Rules: whatever a rule file that loads says, and whatever a record holds, there are messages or a refusal."""

import json
import re
from fnmatch import fnmatchcase
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.properties.test_route import records
from walrelay.config.routes import RuleSettings
from walrelay.errors import Unroutable
from walrelay.model import OutboxRecord
from walrelay.route.rules import Condition, RuleRouter
from walrelay.route.rules.payloads import redacted, selected

names = st.sampled_from(["a", "b", "c d", "é", "0"])
texts = st.text(st.sampled_from('ab*?[]{}"\\|.:é,=0 \ud800'), max_size=8)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
paths = st.lists(names, min_size=1, max_size=3).map(lambda steps: ".".join(f'"{step}"' for step in steps))
fields = (
    st.sampled_from(["id", "type", "payload", "topic", "tenant_id", "header.a", "column.x"])
    | paths.map("payload.{}".format)
    | paths.map("column.x.{}".format)
)
conditions = st.one_of(
    texts,
    st.lists(texts, min_size=1, max_size=3),
    st.builds(lambda name, text: {name: text}, st.sampled_from(["prefix", "glob", "regex"]), texts),
    st.booleans().map(lambda there: {"exists": there}),
    st.builds(
        lambda way, tags: {"tags": {way: tags}}, st.sampled_from(["required", "any_of", "exactly"]), st.lists(texts)
    ),
)
filters = st.sampled_from(
    [
        "",
        "|lower",
        "|kebab",
        "|short_name",
        "|regex:a",
        "|default:x",
        "|utc",
        "|boolean",
        "|tag:a",
        '|regex:"(b|a)"|default:',
    ]
)
templates = st.lists(texts | st.builds("{{{}{}}}".format, fields, filters), max_size=3).map("".join)
rules = st.fixed_dictionaries(
    {"name": st.just("rule"), "when": st.dictionaries(fields, conditions, max_size=2)},
    optional={
        "topic": templates,
        "key": templates,
        "headers": st.fixed_dictionaries({"set": st.dictionaries(names, templates, max_size=2)}),
        "payload": st.fixed_dictionaries({}, optional={"redact": st.lists(paths, max_size=2), "select": paths}),
        "continue": st.booleans(),
    },
)
documents = json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20)
rich = st.builds(
    lambda record, payload, headers, column: record._replace(payload=payload, headers=headers, columns={"x": column}),
    records,
    st.none() | documents,
    st.none() | documents,
    st.none() | documents.map(lambda text: text.decode("utf-8", "surrogateescape")) | texts,
)


@given(st.lists(rules, min_size=1, max_size=4), st.lists(rich, min_size=1, max_size=3))
def test_a_record_becomes_messages_or_is_refused(written: list[dict[str, Any]], found: list[OutboxRecord]) -> None:
    try:
        router = RuleRouter([RuleSettings.model_validate(rule).rule for rule in written], "event.{aggregate_type}")
    except ValidationError:
        return
    for record in found:
        try:
            messages = router.route(record)
        except Unroutable:
            continue
        assert messages or router.decide(record)[1]
        assert [each.topic for each in messages] == router.topics(record)
        said = [verdict for verdict in router.verdicts(record) if not verdict.why_not]
        assert [verdict.message for verdict in said] == list(messages)


@given(texts, texts)
def test_a_glob_is_what_fnmatch_says_and_what_its_translation_finds(pattern: str, text: str) -> None:
    assert Condition("type", "glob", (pattern,)).matcher()(text) == fnmatchcase(text, pattern)


@given(texts, texts)
def test_a_regex_is_what_search_finds(prefix: str, text: str) -> None:
    found = Condition("type", "regex", ("^" + re.escape(prefix),)).matcher()(text)
    assert found == text.startswith(prefix) == Condition("type", "prefix", (prefix,)).matcher()(text)


def without(value: Any, path: tuple[str, ...]) -> Any:
    """The reference: `null` at the path, through all items of lists."""
    if not path:
        return None
    if isinstance(value, list):
        return [
            without(without(each, path[1:]) if path[0] == str(number) else each, path)
            for number, each in enumerate(value)
        ]
    if isinstance(value, dict):
        return {name: without(each, path[1:]) if name == path[0] else each for name, each in value.items()}
    return value


@given(json_values, st.lists(names, min_size=1, max_size=3).map(tuple), st.sampled_from([None, 1, "\t"]))
def test_what_is_redacted_is_null_and_nothing_else_changed(value: Any, path: tuple[str, ...], indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    found = redacted(text, (path,))
    assert json.loads(found) == without(value, path)
    if json.loads(found) == value:
        assert json.loads(found) == json.loads(text)


@given(json_values, st.lists(names, min_size=1, max_size=3).map(tuple))
def test_what_is_selected_is_the_text_of_that_value(value: Any, path: tuple[str, ...]) -> None:
    there: Any = value
    for step in path:
        if isinstance(there, dict) and step in there:
            there = there[step]
        elif isinstance(there, list) and step.isdecimal() and int(step) < len(there):
            there = there[int(step)]
        else:
            assert selected(json.dumps(value), path) is None
            return
    assert json.loads(selected(json.dumps(value), path) or "") == there
