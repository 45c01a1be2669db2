"""Topic templates: which are valid, and what they make of a record."""

import pytest

from walrelay.errors import Unroutable
from walrelay.lsn import LSN
from walrelay.model import OutboxRecord
from walrelay.route import FIELDS, TopicTemplate

RECORD = OutboxRecord(LSN(300), 2, 0, "7", "order", "42", "placed", b"{}", None, None, "acme", None)


@pytest.mark.parametrize(
    ("template", "topic"),
    [
        ("events", "events"),
        ("outbox.event.{aggregate_type}", "outbox.event.order"),
        ("{tenant_id}.{aggregate_type}.{type}", "acme.order.placed"),
        ("{type}-{type}-{aggregate_id}", "placed-placed-42"),
        ("{{literal}}.{type}", "{literal}.placed"),
    ],
)
def test_a_template_is_filled_with_the_records_fields(template: str, topic: str) -> None:
    assert TopicTemplate(template).render(RECORD) == topic


@pytest.mark.parametrize(
    "template",
    [
        "{}",
        "{0}",
        "{id}",
        "{payload}",
        "{nonsense}",
        "{type!r}",
        "{type:>10}",
        "{type.upper}",
        "{type[0]}",
        "{type",
        "}",
    ],
)
def test_any_other_template_is_a_value_error(template: str) -> None:
    with pytest.raises(ValueError):
        TopicTemplate(template)


def test_the_fields_that_may_be_named_are_said() -> None:
    with pytest.raises(ValueError, match=", ".join(f"{{{field}}}" for field in FIELDS)):
        TopicTemplate("{id}")


def test_a_template_knows_which_fields_it_needs_each_once() -> None:
    assert TopicTemplate("{type}.{tenant_id}.{type}").fields == ("type", "tenant_id")
    assert TopicTemplate("events").fields == ()


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_field_that_is_missing_is_unroutable_and_said_with_its_place(nothing: str | None) -> None:
    with pytest.raises(Unroutable, match=r"record 7 at 0/12C:2 has no type, .* '\{type\}'") as caught:
        TopicTemplate("{type}").render(RECORD._replace(type=nothing))
    assert "a template without type" in caught.value.hint
    assert "changing the row does not help" in caught.value.hint
    assert "refusals: {policy: dead_letter}" in caught.value.hint


def test_records_are_told_apart_by_what_the_template_names() -> None:
    template = TopicTemplate("{aggregate_type}.{type}")
    kinds = [("a", "b"), ("b", "a"), ("a", "a"), ("a", "b")]
    topics = [template.render(RECORD._replace(aggregate_type=kind, type=of)) for kind, of in kinds]
    assert topics == ["a.b", "b.a", "a.a", "a.b"]


def test_braces_in_a_value_are_just_braces() -> None:
    assert TopicTemplate("{type}").render(RECORD._replace(type="{tenant_id}")) == "{tenant_id}"


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walrelay.route.template._MEMORY", 3)
    template = TopicTemplate("{aggregate_id}")
    for number in range(10):
        assert template.render(RECORD._replace(aggregate_id=f"n{number}")) == f"n{number}"
        assert len(template._rendered) <= 3
