"""`schema_registry` and `schema` in the settings: what cannot be meant is refused with its line."""

from pathlib import Path

import pytest

from tests.unit.refused_settings import problems_of
from walrelay.config import Settings, parse
from walrelay.errors import SettingsError
from walrelay.route.rules.schemas import OwnSchema, PayloadSchema, Reference

HEAD = "source: {dsn: postgresql://localhost/shop}\nsink: {kind: kafka, bootstrap_servers: 'localhost:9092'}\n"
REGISTRY = "schema_registry: {url: 'http://registry:8081'}"


def read(schema: str, registry: str = REGISTRY, more: str = "") -> Settings:
    return parse(f"{HEAD}{registry}\nroute: {{topic: t, schema: {{{schema}}}}}\n{more}", "walrelay.yaml", {})


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("format: xml", "route.schema.format: 'xml' is not one of"),
        ("subject: record", "route.schema.subject: says how to encode, but the format is none"),
        ("format: avro, subject: record", "route.schema.subject: record is made of the record's full name: set record"),
        ("format: avro, version: '1', id: '2'", "route.schema.id: says which schema, and so does version"),
        ("format: avro, auto_register: true", "route.schema.auto_register: is about the schema in `file`"),
        ("format: avro, references: [{name: a, subject: b, version: 1}]", "route.schema.references: is about"),
        ("format: avro, file: /nowhere.avsc", "route.schema.file: '/nowhere.avsc' cannot be read: No such file"),
        ("format: avro, file: /etc/hostname", "route.schema.file: '/etc/hostname' holds no JSON"),
        ("format: protobuf, file: /etc/hostname", "route.schema.file: is for avro and json-schema"),
        ("format: avro, version: '{column.a'", "route.schema.version: '{column.a' is no template"),
    ],
)
def test_a_schema_that_cannot_be_meant_is_refused_with_its_line(schema: str, problem: str) -> None:
    (found,) = problems_of(lambda: read(schema))
    assert found.startswith(f"4: {problem}"), found


@pytest.mark.parametrize(
    ("registry", "problem"),
    [
        ("", "walrelay.yaml:1: schema_registry is missing: a schema is named"),
        ("schema_registry: {url: 'registry:8081'}", ":3: schema_registry.url: 'registry:8081' is no address of a reg"),
        ("schema_registry: {url: 'http://a:b@c'}", ":3: schema_registry.url: holds a user: write schema_registry.user"),
        ("schema_registry: {url: 'http://a', username: a}", ":3: schema_registry: password is missing: username and"),
        ("schema_registry: {url: 'http://a', timeout: 31}", ":3: schema_registry.timeout: "),
        (
            "schema_registry: {url: 'http://a', options: {timeout: 3}}",
            ":3: schema_registry.options.timeout: has a setting of its own: schema_registry.timeout",
        ),
        (
            "schema_registry: {url: 'http://a', options: {max.retries: 3}}",
            ":3: schema_registry.options.max.retries: is set by walrelay, which asks again by itself",
        ),
    ],
)
def test_a_registry_that_cannot_be_meant_is_refused_with_its_line(registry: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read("format: avro", registry)
    assert problem in str(caught.value)


def test_a_document_cannot_be_encoded_and_binary_events_can() -> None:
    with pytest.raises(SettingsError, match=r"route\.schema: the envelope masstransit holds the payload as JSON here"):
        parse(
            f"{HEAD}{REGISTRY}\nroute: {{topic: t, schema: {{format: avro}}, envelope: {{kind: masstransit}}}}\n",
            "walrelay.yaml",
            {},
        )
    envelope = "envelope: {kind: cloudevents, source: /a}"
    settings = parse(
        f"{HEAD}{REGISTRY}\nroute: {{topic: t, schema: {{format: avro}}, {envelope}}}\n", "walrelay.yaml", {}
    )
    (rule,) = settings.rules
    assert (rule.schema, rule.envelope is not None) == (PayloadSchema("avro"), True)


def test_a_rule_has_the_schema_of_the_route_or_its_own_or_none(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text('{"type": "string"}')
    own = f"{{format: avro, file: {file}, references: [{{name: a, subject: b, version: 1}}], auto_register: true}}"
    settings = read(
        "format: json-schema, subject: record, record: 'shop.{type}', version: '{column.schema_version}'",
        more=f"routes:\n- {{name: a, when: {{type: a}}, schema: {own}}}\n- {{name: b, when: {{type: b}}, schema:"
        " {format: none}}\n- {name: c}\n",
    )
    first, second, third = settings.rules
    assert first.schema == PayloadSchema(
        "avro", own=OwnSchema('{"type": "string"}', (Reference("a", "b", 1),), registers=True)
    )
    assert second.schema is None
    assert third.schema == PayloadSchema("json-schema", "record", "shop.{type}", "{column.schema_version}")
    assert "schema_version" in [field.path[0] if field.path else field.name for field in third.fields] or third.fields


def test_the_options_are_those_of_the_client() -> None:
    registry = "schema_registry: {url: 'http://a', username: u, password: p, options: {ssl.ca.location: /ca.pem}}"
    settings = read("format: avro", registry)
    assert settings.schema_registry is not None
    assert settings.schema_registry.client_options == {
        "url": "http://a",
        "timeout": 5,
        "ssl.ca.location": "/ca.pem",
        "basic.auth.user.info": "u:p",
    }
    assert "'p'" not in repr(settings)
