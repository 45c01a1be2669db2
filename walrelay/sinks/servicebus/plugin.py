"""The Azure Service Bus sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from math import inf

from walrelay.model import Finding, Message
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import AddressTemplate, NoAddress, place_by
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import HostedSink, PreparedMessages, RefusalMemory
from walrelay.sinks.servicebus.messages import DistinctIds, EntityMessage, entity_fault
from walrelay.sinks.servicebus.settings import ServicebusSettings

_BATCH = 100  # messages
_BATCH_BYTES = 200_000  # so that a batch fits where 256 KiB do; one that does not after all is sent in parts


def _open(settings: ServicebusSettings, memory: RefusalMemory) -> Sink:
    with client_library("Service Bus", "servicebus"):
        from walrelay.sinks.servicebus.connection import ServicebusConnection
    return HostedSink(
        partial(ServicebusConnection, settings, PreparedMessages[EntityMessage](), DistinctIds()),
        settings.window._replace(seconds=inf),  # each batch has its own deadline
        memory,
        settings.place,
        lane_of=Lane(settings),
        width=_BATCH,
        width_bytes=_BATCH_BYTES,
    )


def _examine(settings: ServicebusSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("Service Bus", "servicebus"):
        from walrelay.sinks.servicebus.doctor import examine
    return examine(settings, topics)


class Lane:
    """An entity's messages are one lane: a batch of it is on its way at a time, because a client that sends two may
    have the second stored first. Of a partitioned one each session is.
    """

    def __init__(self, settings: ServicebusSettings) -> None:
        self._entity, self._partitioned = AddressTemplate(settings.entity), settings.partitioned

    def __call__(self, message: Message) -> Hashable:
        try:
            entity = self._entity(message)
        except NoAddress:
            return None  # it does not enter
        return (entity, message.key) if self._partitioned else entity


plugin = SinkPlugin(
    ServicebusSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=entity_fault,
    place=lambda settings: place_by(AddressTemplate(settings.entity)),
    traits=SinkTraits(
        durable="accepted by the queue or topic",
        order="of each queue or topic; of each topic and key where it is partitioned",
        repeats="recognised by message_id, and dropped where the entity detects duplicates",
        headers="UTF-8, null; no repeated names, none empty; 32 KiB each, 63 KiB together",
        size="max_message_size of the entity, 256 KiB in the Standard tier, up to 100 MiB in Premium",
        client="azure.servicebus",
        extra="servicebus",
    ),
)
