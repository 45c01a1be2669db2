"""The doctor's questions about queues and topics: whether each can be sent to. What else they are, Service Bus tells
only those who may manage them.
"""

import asyncio
from collections.abc import Iterator, Sequence

from azure.servicebus.aio import ServiceBusSender

from walrelay.errors import WalrelayError
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.hosting import PumpedLoop
from walrelay.sinks.servicebus.client import (
    Trouble,
    largest_message,
    open_batch,
    sender_of,
    service_bus,
    trouble_of,
)
from walrelay.sinks.servicebus.messages import entity_fault
from walrelay.sinks.servicebus.settings import ServicebusSettings

_PATIENCE = 10.0  # seconds
_NEVER = "walrelay-doctor"
_UNKNOWN = "sink.entity takes its name from rows, so that no queue or topic is known beforehand"


def examine(settings: ServicebusSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Opens a sender for each entity that is known beforehand, and sends nothing."""
    loop = PumpedLoop()
    try:
        entities = _entities(settings, topics)
        if not entities:
            yield Finding("sink", "warning", _UNKNOWN, "Make them before the first event for each.")
            yield loop.run_until_complete(_reached(settings))
        yield from loop.run_until_complete(_findings(settings, entities))
    except WalrelayError as why:
        yield Finding("sink", "problem", str(why), getattr(why, "hint", "") or "Correct the settings under sink.")
    finally:
        loop.let_go()
    if not settings.encrypted:
        what = "the connection string is of the emulator: events go unencrypted"
        yield Finding("sink", "warning", what, "Leave UseDevelopmentEmulator out of it, unless it is one.")
    if not settings.session_ids:
        what = "sink.session_ids is false: several consumers of an entity do not keep the order of a key"
        yield Finding("sink", "warning", what, "Let it be true, unless a single consumer reads each entity.")


async def _findings(settings: ServicebusSettings, entities: Sequence[str]) -> list[Finding]:
    client = service_bus(settings)
    return [await _examined(settings, sender_of(client, entity), entity) for entity in entities]


async def _reached(settings: ServicebusSettings) -> Finding:
    """Whether the namespace answers: it is asked for an entity that it does not have."""
    found = await _opened(settings, sender_of(service_bus(settings), _NEVER), _NEVER)
    if found is None or found.error == "unknown_topic":
        return Finding("sink", "ok", f"{settings.place} answers, and accepts the credentials")
    if found.kind == "refused":
        what = f"{settings.place} answers; what these credentials may send to is not known: {found.reason}"
        return Finding("sink", "warning", what, "Grant the right to send to each (Azure Service Bus Data Sender).")
    return _no_answer(settings, found)


async def _opened(settings: ServicebusSettings, sender: ServiceBusSender, entity: str) -> Trouble | None:
    """What speaks against sending to it."""
    try:
        async with asyncio.timeout(min(settings.request_timeout, _PATIENCE)):
            await open_batch(sender)
    except Exception as why:
        return trouble_of(why, entity)
    return None


def _no_answer(settings: ServicebusSettings, found: Trouble) -> Finding:
    what = f"{settings.place} cannot be reached, or does not let us in: {found.reason}"
    return Finding("sink", "problem", what, "Correct the credentials under sink, or the network.")


async def _examined(settings: ServicebusSettings, sender: ServiceBusSender, entity: str) -> Finding:
    found = await _opened(settings, sender, entity)
    if found is not None:
        if found.kind == "wait":
            return Finding("sink", "warning", found.reason, "Look at it in the portal.")
        if found.kind == "refused":
            return Finding("sink", "problem", found.reason, found.hint)
        return _no_answer(settings, found)
    most = largest_message(sender)
    return Finding("sink", "ok", f"{settings.place} lets us send to {entity!r}, messages of up to {most:,} bytes")


def _entities(settings: ServicebusSettings, topics: Sequence[str]) -> list[str]:
    """Those that are known beforehand."""
    template = AddressTemplate(settings.entity)
    found = dict.fromkeys(template.of_topic(topic) for topic in topics) if not template.by_row else {}
    return [each for each in found if not entity_fault(each)]
