"""Presets: each is whole, what the file says counts, and errors name the line or the preset."""

from pathlib import Path

import pytest
import yaml

from tests.unit.refused_settings import problems_of
from walrelay.config import Settings, parse, presets
from walrelay.config.documentation import example
from walrelay.config.reading import parse_relays
from walrelay.errors import SettingsError

DOCS = Path(__file__).parents[2] / "docs"
OF_OTHERS = [name for name in presets.NAMES if name != "walrelay"]
HEAD = "source: {dsn: postgresql://localhost/shop}\nsink: {kind: kafka, bootstrap_servers: 'localhost:9092'}\n"


def read(text: str) -> Settings:
    return parse(HEAD + text, "walrelay.yaml", {})


def problems(text: str) -> list[str]:
    return problems_of(lambda: read(text))


@pytest.mark.parametrize("name", OF_OTHERS)
def test_the_name_alone_says_what_its_example_says(name: presets.PresetName) -> None:
    assert yaml.safe_load(presets.text(name))["outbox"]["preset"] == name
    whole = parse(example(name), "example", {"DATABASE_URL": "postgresql://localhost/shop"})
    alone = read(f"outbox: {{preset: {name}}}\n")
    for section in ("outbox", "route", "routes", "debezium"):
        assert getattr(whole, section) == getattr(alone, section)
    columns = yaml.safe_load(presets.text(name))["outbox"].get("columns")
    assert whole.debezium if columns is None else set(columns) == set(type(whole.outbox.columns).model_fields)


@pytest.mark.parametrize("name", OF_OTHERS)
def test_what_a_preset_comments_out_are_settings(name: presets.PresetName) -> None:
    commented_in = "\n".join(
        line.removeprefix("#") if line.startswith(("#  ", "#route")) else line for line in example(name).splitlines()
    )
    assert parse(commented_in, "example", {"DATABASE_URL": "postgresql://localhost/shop"})


def test_walrelay_is_the_default() -> None:
    assert read("outbox: {preset: walrelay}\n") == read("")


def test_the_file_counts_setting_by_setting_and_a_list_as_a_whole() -> None:
    settings = read(
        "outbox: {preset: multi-tenant, table: app.events, columns: {tenant_id: null, type: kind}}\n"
        "route: {headers: {tenant-id: none, schema-id: null, x: '{type}'}}\n"
    )
    assert settings.outbox.table == "app.events"
    assert (settings.outbox.columns.tenant_id, settings.outbox.columns.type) == (None, "kind")
    assert settings.outbox.columns.headers == "event_metadata"
    assert settings.route.headers["tenant-id"] == "none"
    assert settings.route.headers["routing-key"] == "{column.routing_key}"
    (rule,) = settings.rules
    assert [name for name, _ in rule.set_headers] == ["tenant-id", "routing-key", "schema-version", "occurred-at", "x"]
    assert [rule.name for rule in read("outbox: {preset: ef-core}\nroutes: [{name: a, topic: x}]\n").routes] == ["a"]


def test_an_error_in_the_file_has_its_line_and_one_of_the_preset_names_it() -> None:
    assert problems("outbox:\n  preset: event-log\n  columns:\n    id: null\n")[0].startswith("6: outbox.columns.id: ")
    text = "outbox:\n  preset: multi-tenant\n  columns: {tenant_id: null}\n"
    assert problems(text) == [
        "4: route: names tenant_id, but outbox.columns.tenant_id is null (says the preset 'multi-tenant')"
    ]
    assert read(f"{text}route: {{headers: {{tenant-id: null}}}}\n").rules
    positions = HEAD.replace("9092'", "9092', positions_topic: events")
    with pytest.raises(SettingsError) as caught:
        parse(f"{positions}outbox:\n  preset: event-log\n", "walrelay.yaml", {})
    assert str(caught.value) == (
        "walrelay.yaml:4: route.topic: 'events' is where relays keep their positions (sink.positions_topic)"
        " (says the preset 'event-log')"
    )


def test_one_that_is_not_known_is_refused_with_those_that_are() -> None:
    assert problems("outbox:\n  preset: masstransit\n") == [
        f"4: outbox.preset: 'masstransit' is not one of {', '.join(presets.NAMES)}"
    ]
    assert problems("outbox:\n  preset: [ef-core]\n")[0].startswith("4: outbox.preset: ")
    assert problems("outbox: ef-core\n")[0].startswith("3: outbox: must be a mapping")


SERVICE_BUS = "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=relay;SharedAccessKey=c2VjcmV0"
ENVIRONMENT = {"DATABASE_URL": "host=db", "RABBITMQ_URL": "amqp://rabbit", "SERVICEBUS_CONNECTION_STRING": SERVICE_BUS}
"""What the settings of the guides name."""


def test_every_preset_has_its_row_in_the_manual_and_its_guide() -> None:
    page = (DOCS / "presets.md").read_text()
    for name in OF_OTHERS:
        assert f"| `{name}` |" in page
        where = f"from-{name}.md" if name == "debezium" else f"guides/from-{name}.md"
        assert f"({where})" in page
        guide = (DOCS / where).read_text()
        assert f"preset: {name}" in guide
        for block in guide.split("```yaml\n")[1:]:
            rest = [] if "source:" in block else [HEAD]
            assert parse_relays("\n".join([*rest, block.partition("```")[0]]), "guide", ENVIRONMENT)


def test_route_stands_below_the_rules() -> None:
    settings = read(
        "route: {key: '{tenant_id}:{aggregate_id}', headers: {a: '1', b: '2', c: '3'}}\n"
        "routes:\n"
        "  - {name: one, key: '{id}', headers: {set: {a: x}, remove: [b]}, when: {type: x}}\n"
        "  - {name: gone, when: {type: y}, drop: true}\n"
        "  - {name: rest}\n"
    )
    one, gone, rest = settings.rules
    assert (one.key, one.set_headers) == ("{id}", (("c", "3"), ("a", "x")))
    assert (gone.key, gone.set_headers) == (None, ())
    assert (rest.key, rest.set_headers) == ("{tenant_id}:{aggregate_id}", (("a", "1"), ("b", "2"), ("c", "3")))


def test_without_key_and_headers_there_is_no_rule() -> None:
    assert read("route: {topic: x}\n").rules == ()
    assert len(read("route: {key: '{id}'}\n").rules) == 1


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        ("headers: {position: x}", "3: route.headers.position: the header 'position' is walrelay's own"),
        ("headers: {a: '{typ}'}", "3: route.headers.a: 'typ' names nothing"),
        ("key: ''", "3: route.key: is empty; write a template"),
        ("key: '{type|tag:}'", "3: route.key: the filter tag needs the name of a tag"),
    ],
)
def test_a_template_that_cannot_be_meant_is_refused_with_its_line(route: str, problem: str) -> None:
    (found,) = problems(f"route: {{{route}}}\n")
    assert found.startswith(problem), found


def test_a_header_that_the_envelope_sets_is_refused_in_route_and_with_a_rule_of_that_envelope() -> None:
    route = "route: {headers: {content-type: x}"
    (found,) = problems(f"{route}, envelope: {{kind: cloudevents, source: /x}}}}\n")
    assert found.startswith("3: route.headers.content-type: the envelope cloudevents sets the header")
    rule = "routes: [{name: a, envelope: {kind: cloudevents, source: /x}}]\n"
    (found,) = problems(f"{route}}}\n{rule}")
    assert "the envelope cloudevents sets the header 'content-type'" in found
    assert read("route: {envelope: {kind: cloudevents, source: /x}, key: '{id}'}\n").rules[0].envelope
