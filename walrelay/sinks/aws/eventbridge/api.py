"""What EventBridge gets, and what it says."""

import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate, NoAddress
from walrelay.sinks.aws.arns import region_of
from walrelay.sinks.aws.contract import AwsEntry, EntryFault, RequestLimits
from walrelay.sinks.aws.document import alone, document, is_object
from walrelay.sinks.aws.eventbridge.settings import EventbridgeSettings
from walrelay.sinks.hosting import Misfit
from walrelay.sinks.hosting.sink import lane_of_key

_MOST = 1_000_000  # "less than 1MB", by the service's model
_TIME = 14  # bytes that the service counts for it
_BUS = re.compile(r"(?:arn:[a-z-]+:events:[a-z0-9-]+:\d{12}:event-bus/)?[A-Za-z0-9._-]{1,256}")
_LONGEST_SOURCE, _LONGEST_TYPE = 256, 128
_NO_ADDRESS = "Correct sink.bus, sink.source and sink.detail_type, or the event."


class EventbridgeApi:
    """See `walrelay.sinks.aws.contract.AwsApi`."""

    service, name = "events", "EventBridge"
    limits = RequestLimits(10, _MOST, _MOST)

    def __init__(self, settings: EventbridgeSettings) -> None:
        self.region = region_of(settings.bus)
        self._bus, self._source = AddressTemplate(settings.bus), AddressTemplate(settings.source)
        self._type = AddressTemplate(settings.detail_type)
        self._format = settings.format

    def lane(self, message: Message) -> Hashable:
        return lane_of_key(message)

    def entry(self, message: Message) -> AwsEntry | Misfit:
        try:
            bus, source, type_ = self._bus(message), self._source(message), self._type(message)
        except NoAddress as why:
            return Misfit(str(why), _NO_ADDRESS, "unroutable")
        if fault := bus_fault(bus):
            return Misfit(f"{bus!r} is no event bus: {fault}", "Correct sink.bus, or the topic.", "invalid_topic")
        if fault := _names_fault(source, type_):
            return Misfit(fault, _NO_ADDRESS, "invalid_topic")
        detail = self._detail(message)
        if isinstance(detail, Misfit):
            return detail
        fields = {
            "EventBusName": bus,
            "Source": source,
            "DetailType": type_,
            "Detail": detail,
            "Time": datetime.fromtimestamp(message.timestamp_ms / 1_000, UTC),
        }
        size = _TIME + len(source.encode()) + len(type_.encode()) + len(detail.encode())
        return AwsEntry(bus, fields, size)

    def put(self, client: Any, place: str, entries: Sequence[dict[str, Any]]) -> list[EntryFault | None]:
        answers = client.put_events(Entries=entries)["Entries"]
        return [_fault(answer) for _, answer in zip(entries, answers, strict=True)]

    def _detail(self, message: Message) -> str | Misfit:
        if self._format == "document":
            return document(message)
        payload = alone(message)
        if isinstance(payload, Misfit):
            return payload
        text = payload.decode(errors="replace")
        if text.encode() != payload or not is_object(text):
            return Misfit("its payload is no JSON object, which an event's detail is", "Set sink.format to document.")
        return text


def _fault(answer: Mapping[str, str]) -> EntryFault | None:
    if answer.get("EventId"):
        return None
    return EntryFault(answer.get("ErrorCode", "NoAnswer"), answer.get("ErrorMessage", ""))


def bus_fault(text: str) -> str:
    """Why that is no event bus; empty if it may be one."""
    return "" if _BUS.fullmatch(text) else "an event bus has up to 256 letters, digits, '.', '-' and '_'"


def _names_fault(source: str, type_: str) -> str:
    if not 0 < len(source) <= _LONGEST_SOURCE or source.startswith("aws."):
        return f"{source[:40]!r} is no source: it has 1 to {_LONGEST_SOURCE} characters, and does not begin with aws."
    if not 0 < len(type_) <= _LONGEST_TYPE:
        return f"{type_[:40]!r} is no detail-type: it has 1 to {_LONGEST_TYPE} characters"
    return ""
