"""`sinks:` in the settings: several sinks by name, and what is wrong with them is said before a record comes."""

import pytest

from tests.unit.refused_settings import problems_of
from walrelay.config import Settings, parse
from walrelay.config.reading import parse_relays

SOURCE = "source: {dsn: postgresql://localhost/shop}\n"
KAFKA = "{kind: kafka, bootstrap_servers: 'localhost:9092'}"
SINKS = f"{SOURCE}sinks:\n  events: {KAFKA}\n  lines: {{kind: stdout}}\n"


def read(more: str, head: str = SINKS) -> Settings:
    return parse(head + more, "walrelay.yaml", {})


def problems(more: str, head: str = SINKS) -> list[str]:
    return problems_of(lambda: read(more, head))


def test_a_rule_names_a_sink_or_several_or_leaves_that_to_the_route() -> None:
    rules = read(
        "route: {sink: events}\nroutes:\n"
        "- {name: audit, when: {type: x}, topic: audit, sink: [lines, events]}\n"
        "- {name: noise, when: {type: y}, drop: true}\n"
        "- {name: rest}\n"
    ).rules
    assert [(rule.name, rule.sinks, rule.goes_on) for rule in rules] == [
        ("audit", ("lines",), True),
        ("audit", ("events",), False),
        ("noise", (), False),
        ("rest", ("events",), False),
    ]


def test_without_rules_every_record_goes_to_the_sinks_of_the_route() -> None:
    rules = read("route: {sink: [events, lines]}\n").rules
    assert [(rule.sinks, rule.goes_on) for rule in rules] == [(("events",), True), (("lines",), False)]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("", "2: sinks: route.sink is missing: which of events, lines do records go to?"),
        (
            "routes: [{name: a, sink: [events, lines], when: {type: x}}, {name: b}]",
            "5: routes[1]: names no sink: which of events, lines? Or",
        ),
        ("route: {sink: [events, line]}", "5: route.sink: there is no sink 'line'; there are events, lines"),
        ("route: {sink: events}", "4: sinks.lines: gets nothing: name it in route.sink or in a rule, or leave it out"),
        ("route: {sink: []}", "5: route.sink: is empty: write the name of a sink"),
        ("route: {sink: [events, events]}", "5: route.sink: names a sink twice"),
        ("route: {sink: [events, lines]}\nsink: {kind: memory}", "2: sinks: has no meaning beside `sink`: leave one"),
        ("debezium: {}", "2: sinks: has no meaning beside `debezium`: leave one of them out"),
        ("route: {sink: [events, lines]}\ndelivery: exactly_once", "6: delivery: no transaction goes over several"),
        ("route: {sink: [events, lines]}\nposition: {keep: topic}", "6: position.keep: of several sinks none has the"),
        (
            "route: {sink: [events, lines]}\nrefusals: {dead_letters: both}",
            "6: refusals: dead_letter_topic 'outbox.dead_letters' names no sink: write SINK:TOPIC, as in events:outbox",
        ),
        (
            "route: {sink: [events, lines]}\nrefusals: {topics: {'*': stop, 'l*:a': skip, '*:b': stop, orders*: skip}}",
            "6: refusals.topics.orders*: names no sink: write SINK:TOPIC, as in events:orders*, or *:orders* for all",
        ),
        ("route: {sink: [events, lines]}\nrefusals: {topics: {'e*': skip}}", "6: refusals.topics.e*: names no sink:"),
        ("route: {sink: [events, lines]}\nrefusals: {topics: {'x:a': skip}}", "6: refusals.topics.x:a: names no sink:"),
        ("route: {sink: [events, lines]}\nroutes: [{name: a, drop: true, sink: lines}]", "6: routes[0].sink: says how"),
        (
            "routes: [{name: a, topic: 'a b', when: {type: x}, sink: lines}, {name: b, topic: 'a b', sink: events}]",
            "5: routes[1].topic: 'a b' gives topics that the broker cannot have: a",
        ),
        (
            "routes: [{name: a, topic: walrelay.positions, sink: [lines, events]}]",
            "5: routes[0].topic: 'walrelay.positions' is where relays keep their positions",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(more: str, problem: str) -> None:
    (found,) = problems(more + "\n")
    assert found.startswith(problem), found


@pytest.mark.parametrize(
    ("sinks", "problem"),
    [
        ("sinks: {}", "sinks: is empty: name a sink, or write `sink`"),
        ("sinks: [a]", "sinks: must be a mapping"),
        ("sinks: {'a:b': {kind: memory}}", "sinks.a:b: 'a:b' is no name of a sink: 1 to 63 letters"),
        ("sinks: {a: {kind: kafka}}", "sinks.a: 'bootstrap_servers' is missing"),
        ("sinks: {a: {kind: memory, kep: 1}}", "sinks.a: unknown key 'kep'; did you mean 'keep'?"),
        ("sinks: {a: {kind: stdout}, b: {kind: stdout}}", "sinks.b.kind: another sink writes to standard output"),
        (
            "sinks: {a: {kind: file, path: /tmp/x}, b: {kind: file, path: /tmp/../tmp/x}}",
            "sinks.b.kind: another sink writes to the file '/tmp/x' already",
        ),
        ("sink: null", "sink: has no value"),
    ],
)
def test_what_is_wrong_with_sinks_is_told_by_their_name(sinks: str, problem: str) -> None:
    found = problems(f"{sinks}\nroute: {{sink: [a, b]}}\n", SOURCE)
    assert any(each.startswith(f"2: {problem}") for each in found), found


def test_secrets_of_each_sink_are_read_and_not_shown() -> None:
    head = f"{SOURCE}sinks:\n  a: {{kind: memory}}\n  b:\n    kind: kafka\n    bootstrap_servers: x:1\n"
    text = head + "    options: {sasl.password: '${SECRET}'}\nroute: {sink: [a, b]}\n"
    settings = parse(text, "walrelay.yaml", {"SECRET": "hidden"})
    assert "hidden" not in repr(settings)
    assert "hidden" in str(settings.named_sinks["b"].settings.client_options())  # type: ignore[attr-defined]


def test_sinks_of_a_relay_replace_the_sink_of_the_defaults_and_the_other_way_round() -> None:
    text = (
        f"defaults: {{source: {{dsn: postgresql://localhost/shop}}, sink: {KAFKA}}}\nrelays:\n"
        "  one: {source: {slot: a}}\n"
        f"  two: {{source: {{slot: b}}, sinks: {{x: {KAFKA}, y: {{kind: memory}}}}, route: {{sink: [x, y]}}}}\n"
    )
    relays = parse_relays(text, "walrelay.yaml", {})
    assert {name: [*each.named_sinks] for name, each in relays.items()} == {"one": [""], "two": ["x", "y"]}


@pytest.mark.parametrize("setting", ["rotate_bytes: 2000", "rotate_interval: 60"])
def test_a_setting_of_the_file_sink_that_is_gone_says_what_to_do_instead(setting: str) -> None:
    (found,) = problems(f"sink: {{kind: file, path: /tmp/x, {setting}}}\n", SOURCE)
    assert "is no setting any more" in found
    assert "logrotate" in found


def test_exactly_once_into_a_file_is_refused_with_the_way_on() -> None:
    (found,) = problems("sink: {kind: file, path: /tmp/x}\ndelivery: exactly_once\n", SOURCE)
    assert "a sink of kind 'file' cannot publish exactly once: leave it out" in found
