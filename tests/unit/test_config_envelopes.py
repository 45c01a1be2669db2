"""`envelope` in the settings: what cannot be meant is refused with its line, before a record comes."""

import pytest

from tests.unit.refused_settings import problems_of
from walrelay.config import Settings, parse
from walrelay.errors import SettingsError
from walrelay.route.envelopes import CloudEvents, Spring

HEAD = "source: {dsn: postgresql://localhost/shop}\nsink: {kind: kafka, bootstrap_servers: 'localhost:9092'}\n"


def read(envelope: str, more: str = "") -> Settings:
    return parse(f"{HEAD}route: {{topic: t, envelope: {{{envelope}}}}}\n{more}", "walrelay.yaml", {})


@pytest.mark.parametrize(
    ("envelope", "problem"),
    [
        ("kind: cloudevent", "route.envelope.kind: 'cloudevent' is not one of"),
        ("kind: cloudevents", "route.envelope: cloudevents needs a source, a URI that names the producer"),
        ("kind: spring, source: /a", "route.envelope.source: is for kind: cloudevents; the kind here is spring"),
        ("kind: spring, mode: binary", "route.envelope.mode: is for kind: cloudevents; the kind here is spring"),
        ("message_types: [a]", "route.envelope.message_types: is for kind: masstransit; the kind here is raw"),
        ("attributes: {type: a}", "route.envelope.attributes: is for other kinds than raw, which has none"),
        (
            "kind: spring, attributes: {type: a}",
            "route.envelope.attributes.type: 'type' is no attribute of spring; known is contentType",
        ),
        (
            "kind: masstransit, attributes: {messageId: a}",
            "route.envelope.attributes.messageId: 'messageId' is no attribute of MassTransit's envelope;",
        ),
        (
            "kind: cloudevents, source: /a, attributes: {tenant_id: a}",
            "route.envelope.attributes.tenant_id: 'tenant_id' is no attribute of CloudEvents: 1 to 20",
        ),
        (
            "kind: cloudevents, source: /a, attributes: {id: a}",
            "route.envelope.attributes.id: 'id' is the record's id",
        ),
        ("kind: cloudevents, source: '/{tenant}'", "route.envelope.source: 'tenant' names nothing: write id,"),
        (
            "kind: cloudevents, source: /a, attributes: {subject: '{type'}",
            "route.envelope.attributes.subject: '{type' is no template",
        ),
    ],
)
def test_an_envelope_that_cannot_be_meant_is_refused_with_its_line(envelope: str, problem: str) -> None:
    (found,) = problems_of(lambda: read(envelope))
    assert found.startswith(f"3: {problem}"), found


@pytest.mark.parametrize(
    ("envelope", "column", "problem"),
    [
        ("kind: masstransit", "type", "masstransit needs type, but outbox.columns.type is null"),
        ("kind: cloudevents, source: /a", "type", "cloudevents needs type, but outbox.columns.type is null"),
        ("kind: cloudevents, source: '/{tenant_id}'", "tenant_id", "cloudevents needs tenant_id, but outbox.columns"),
    ],
)
def test_an_envelope_needs_its_columns(envelope: str, column: str, problem: str) -> None:
    without = f"outbox: {{columns: {{{column}: null}}}}\n"
    with pytest.raises(SettingsError, match=f"route.envelope: {problem}"):
        read(envelope, without)
    rules = "routes:\n  - {name: raw, when: {id: '1'}, envelope: {kind: raw}}\n  - {name: all}\n"
    with pytest.raises(SettingsError, match="routes\\[1\\]"):
        read(envelope, without + rules)


def test_a_table_without_types_may_have_them_from_a_template() -> None:
    without = "outbox: {columns: {type: null}}\n"
    read("kind: cloudevents, source: /a, attributes: {type: '{payload.type}'}", without)
    read("kind: masstransit, message_types: ['Acme.{aggregate_type}']", without)


def test_rules_have_the_envelope_of_the_route_or_their_own() -> None:
    rules = (
        "routes:\n  - {name: a, when: {type: a}, envelope: {kind: raw}}\n  - {name: b, when: {type: b}, drop: true}\n"
    )
    own = "  - {name: c, when: {type: c}, envelope: {kind: spring}}\n  - {name: d}\n"
    found = read("kind: cloudevents, source: /a", rules + own).rules
    assert [rule.envelope for rule in found] == [None, None, Spring(), CloudEvents("/a")]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (
            "headers: {set: {ce_user: x}}",
            "routes[0].headers.set.ce_user: the envelope cloudevents sets the header 'ce_user'",
        ),
        (
            "headers: {rename: {kind: Content-Type}}",
            "routes[0].headers.rename.kind: the envelope cloudevents sets the header 'Content-Type'",
        ),
        ("drop: true, envelope: {kind: raw}", "routes[0].envelope: says how to publish, but the rule drops the record"),
    ],
)
def test_a_rule_cannot_set_what_its_envelope_sets(rule: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read("kind: cloudevents, source: /a", f"routes:\n  - {{name: a, {rule}}}\n")
    assert f"walrelay.yaml:5: {problem}" in str(caught.value).splitlines()
