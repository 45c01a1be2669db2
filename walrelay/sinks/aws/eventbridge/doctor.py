"""Event buses: what the doctor asks about them, and what `walrelay init --topics` makes."""

from collections.abc import Iterator, Sequence
from typing import Any

from botocore.exceptions import ClientError

from walrelay.errors import SinkError
from walrelay.model import Finding
from walrelay.sinks.aws.arns import name_of
from walrelay.sinks.aws.asking import findings, is_missing, known_places, made
from walrelay.sinks.aws.eventbridge.api import EventbridgeApi, bus_fault
from walrelay.sinks.aws.eventbridge.settings import EventbridgeSettings


def examine(settings: EventbridgeSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Asks for each bus and its rules."""
    places = known_places(settings.bus, topics)
    yield from findings(
        EventbridgeApi(settings),
        settings,
        places,
        _bus,
        bus_fault,
        "correct sink.bus",
        lambda client: client.list_event_buses(Limit=1),
    )
    yield Finding("sink", "warning", "EventBridge keeps no order: consumers may get the events of a key in any order")


def make_buses(settings: EventbridgeSettings, topics: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Without rules."""
    buses = known_places(settings.bus, topics)
    for bus in buses:
        if fault := bus_fault(bus):
            raise SinkError(f"{bus!r} cannot be made: {fault}", hint="Correct sink.bus.")
    yield from made(EventbridgeApi(settings), settings, buses, _make)


def _bus(client: Any, bus: str) -> Iterator[Finding]:
    client.describe_event_bus(Name=bus)
    yield Finding("sink", "ok", f"event bus {name_of(bus)!r} is there")
    if not client.list_rules(EventBusName=bus, Limit=1)["Rules"]:
        what = f"event bus {name_of(bus)!r} has no rule: what it gets is gone"
        yield Finding("sink", "warning", what, f"aws events put-rule --event-bus-name {name_of(bus)} ...")


def _make(client: Any, bus: str) -> bool:
    try:
        client.describe_event_bus(Name=bus)
    except ClientError as why:
        if not is_missing(why):
            raise
        client.create_event_bus(Name=name_of(bus))
        return True
    return False
