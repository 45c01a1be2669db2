"""`routes:` in the settings: what is wrong with a rule is said before a record comes."""

import pytest

from tests.unit.refused_settings import problems_of
from walrelay.config import Settings, parse

HEAD = "source: {dsn: postgresql://localhost/shop}\nsink: {kind: kafka, bootstrap_servers: 'localhost:9092'}\nroutes:\n"


def read(*rules: str, more: str = "") -> Settings:
    text = HEAD + "".join(f"  - {{{rule}}}\n" for rule in rules) + more
    return parse(text, "walrelay.yaml", {})


def problems(*rules: str, more: str = "") -> list[str]:
    return problems_of(lambda: read(*rules, more=more))


def test_without_rules_nothing_changes() -> None:
    assert parse(HEAD.replace("routes:\n", ""), "walrelay.yaml", {}).routes == ()


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("name: a, when: {tenant: x}", "routes[0].when.tenant: 'tenant' names nothing: write id, aggregate_type,"),
        ("name: a, when: {payload: {regex: '('}}", "routes[0].when.payload.regex: '(' is not a regular expression:"),
        ("name: a, when: {type: {regex: '(a+)+$'}}", "routes[0].when.type.regex: '(a+)+$' can take for ever: what it"),
        ("name: a, topic: '{type|regex:(a+)+$}'", "routes[0].topic: '(a+)+$' can take for ever: what it repeats can"),
        ("name: a, when: {payload.a..b: x}", "routes[0].when.payload.a..b: 'a..b' is no path: write names with dots"),
        ("name: a, when: {header.: x}", "routes[0].when.header.: 'header.' names no header"),
        ("name: a, when: {type: 1.50}", "routes[0].when.type: 1.5 must be in quotes: numbers are compared"),
        ("name: a, when: {type: }", "routes[0].when.type: has no value; `exists: false` means NULL or missing"),
        ("name: a, when: {type: []}", "routes[0].when.type: is empty: no value is one of none"),
        ("name: a, when: {type: {}}", "routes[0].when.type: says nothing: write a text, a list of texts, or one_of"),
        ("name: a, when: {type: {like: x}}", "routes[0].when.type: unknown key 'like'; known are one_of, prefix, glob"),
        ("name: a, topic: 'a.{typ}'", "routes[0].topic: 'typ' names nothing: write id, aggregate_type,"),
        ("name: a, topic: 'a.{type'", "routes[0].topic: 'a.{type' is no template, from '{type' on: a field is written"),
        ("name: a, topic: 'a.{type|camel}'", "routes[0].topic: there is no filter 'camel'; known are lower, kebab,"),
        ("name: a, topic: 'a.{type|default}'", "routes[0].topic: the filter default needs an argument, as in"),
        ("name: a, topic: 'a.{type|lower:x}'", "routes[0].topic: the filter lower takes no argument"),
        ("name: a, topic: 'a b.{type}'", "routes[0].topic: 'a b.{type}' gives topics that the broker cannot have: a"),
        ("name: a, topic: ''", "routes[0].topic: is empty; write a template, as in orders.{type|kebab}"),
        ("name: a, topic: walrelay.positions", "routes[0].topic: 'walrelay.positions' is where relays keep their"),
        ("name: a, headers: {set: {position: x}}", "routes[0].headers.set.position: the header 'position' is"),
        ("name: a, headers: {remove: [id]}", "routes[0].headers.remove[0]: the header 'id' is walrelay's own:"),
        ("name: a, drop: true, topic: x", "routes[0].topic: says how to publish, but the rule drops the record"),
        ("name: a, payload: {redact: ['a..b']}", "routes[0].payload.redact[0]: 'a..b' is no path:"),
        ("name: 'a b'", "routes[0].name: 'a b' is no name of a rule: 1 to 63 letters, digits,"),
        ("when: {}", "routes[0]: 'name' is missing: In messages, logs and counts."),
        ("name: a, continue: true", "routes[0].continue: there is no rule after this one to continue with"),
        ("name: a, colour: x", "routes[0]: unknown key 'colour'; known are name, when, topic, key, headers, payload,"),
        ("name: a, sink: x", "routes[0].sink: names a sink, and the only one has no name: leave this out, or write"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_with_its_line(rule: str, problem: str) -> None:
    (found,) = problems(rule)
    assert found.startswith(f"4: {problem}"), found


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("name: a", "name: b, when: {type: x}"),
        ("name: a, when: {type: x}", "name: b, when: {type: x, tenant_id: y}"),
        ("name: a, when: {type: [x, y]}", "name: b, when: {type: y}"),
        ("name: a, when: {type: {prefix: pa}}", "name: b, when: {type: [paid, past]}"),
        ("name: a, when: {type: {prefix: pa}}", "name: b, when: {type: {prefix: pai}}"),
        ("name: a, when: {type: {glob: 'p*'}}", "name: b, when: {type: paid}"),
        ("name: a, when: {type: {exists: true}}", "name: b, when: {type: {regex: x}}"),
        ("name: a, drop: true", "name: b"),
    ],
)
def test_a_rule_that_no_record_comes_to_is_refused(earlier: str, later: str) -> None:
    assert problems(earlier, later) == [
        "5: routes[1]: no record comes to it: 'a' takes all that match it. Put this one first"
    ]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("name: a, continue: true", "name: b, when: {type: x}"),
        ("name: a, when: {type: x, tenant_id: y}", "name: b, when: {type: x}"),
        ("name: a, when: {type: y}", "name: b, when: {type: [x, y]}"),
        ("name: a, when: {type: {prefix: pai}}", "name: b, when: {type: {prefix: pa}}"),
        ("name: a, when: {type: {exists: false}}", "name: b, when: {type: x}"),
        ("name: a, when: {type: {exists: true}}", "name: b, when: {type: {tags: {exactly: []}}}"),
        ("name: a, when: {type: x}", "name: b, when: {tenant_id: x}"),
    ],
)
def test_a_rule_that_some_record_may_come_to_is_taken(earlier: str, later: str) -> None:
    assert len(read(earlier, later).routes) == 2


def test_all_faults_of_the_rules_are_reported_at_once() -> None:
    rules = ("name: a, topic: 'a b'", "name: a, when: {tenant_id: x}, continue: true")
    assert problems(*rules, more="outbox: {columns: {tenant_id: null}}\n") == [
        "4: routes[0].topic: 'a b' gives topics that the broker cannot have: a name has letters, digits, '.', '_' and"
        " '-', and not ' '",
        "5: routes[1].name: there is another rule 'a': each needs a name of its own",
        "5: routes[1]: names tenant_id, but outbox.columns.tenant_id is null",
        "5: routes[1]: no record comes to it: 'a' takes all that match it. Put this one first",
        "5: routes[1].continue: there is no rule after this one to continue with",
    ]


def test_the_template_of_before_needs_its_columns_only_if_a_rule_may_use_it() -> None:
    without = "outbox: {columns: {aggregate_type: null}}\n"
    assert read("name: a, topic: x", more=without).routes
    assert problems("name: a", more=without)[0].startswith("5: outbox.columns.aggregate_type: is null, but route.topic")
