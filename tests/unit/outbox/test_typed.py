"""Typed events: classes by name and version."""

import dataclasses
from decimal import Decimal

import pydantic.dataclasses
import pytest
from pydantic import BaseModel, Field, ValidationError

from walrelay.outbox import Event, Registry, UnknownEvent
from walrelay.outbox.payload import json_text


def registered() -> tuple[Registry, type, type]:
    registry = Registry()

    @registry.event("OrderPlaced", aggregate_type="order", aggregate_id="order_id")
    @dataclasses.dataclass(frozen=True)
    class First:
        order_id: int
        total: Decimal

    @registry.event(
        "OrderPlaced", version=2, aggregate_type="order", aggregate_id=lambda event: f"o-{event.id}", topic="orders"
    )
    class Second(BaseModel):
        id: int

    return registry, First, Second


def test_an_instance_becomes_an_event_of_its_name_version_and_aggregate() -> None:
    registry, first, second = registered()
    one, two = first(7, Decimal("1.5")), second(id=8)
    old, new = registry.envelope(one), registry.envelope(two)
    assert old == Event(
        aggregate_type="order", aggregate_id="7", type="OrderPlaced", payload=one, headers={}, topic=None, id=old.id
    )
    assert (new.aggregate_id, new.headers, new.topic) == ("o-8", {"event-version": "2"}, "orders")


def test_a_message_is_read_as_the_class_of_its_type_and_version() -> None:
    registry, first, second = registered()
    assert registry.read("OrderPlaced", b'{"order_id": 7, "total": "1.5"}') == first(7, Decimal("1.5"))
    assert registry.read("OrderPlaced", '{"id": 8}', "2") == second(id=8)
    with pytest.raises(ValidationError):
        registry.read("OrderPlaced", b'{"order_id": "seven"}')
    with pytest.raises(UnknownEvent, match="OrderPlaced version 3 is not a registered event; known are: OrderPlaced 1"):
        registry.read("OrderPlaced", b"{}", 3)


def test_an_instance_is_read_back_as_it_was_written_whatever_it_is_called_outside() -> None:
    registry = Registry()

    @registry.event("Named", aggregate_type="a", aggregate_id="id")
    @pydantic.dataclasses.dataclass
    class Named:
        id: int = Field(alias="key")

    given = Named(key=7)
    assert registry.read("Named", json_text(given) or "") == given
    assert json_text([given]) == '[{"key": 7}]'


def test_a_class_that_nobody_registered_says_how_to() -> None:
    registry, _, _ = registered()
    with pytest.raises(UnknownEvent, match="dict is not a registered event: decorate the class with @event"):
        registry.envelope({"a": 1})


def test_an_event_whose_key_is_not_known_yet_is_refused() -> None:
    registry, first, _ = registered()
    with pytest.raises(ValueError, match="aggregate_id is None"):
        registry.envelope(first(None, Decimal(1)))


def test_two_classes_of_one_name_and_version_are_refused() -> None:
    registry, first, _ = registered()
    with pytest.raises(ValueError, match=r"OrderPlaced version 1 is already registered as .*First"):
        registry.event("OrderPlaced", aggregate_type="order", aggregate_id="id")(Decimal)
    registry.event("OrderPlaced", aggregate_type="order", aggregate_id="order_id")(first)  # its module loaded again
