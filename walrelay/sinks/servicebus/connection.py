"""Senders of azure-servicebus: a batch is a single transfer, which the entity accepts as a whole or not at all.

An entity that is full, disabled or busy is waited for: the same batch is sent again, and nothing of its lane overtakes
it. A batch that is refused ends the run, and the next one sends it message by message.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from walrelay.errors import Retryable, WalrelayError
from walrelay.model import Message
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.hosting import Misfit, PumpedLoop, Sending
from walrelay.sinks.hosting.circuit import backed_off
from walrelay.sinks.hosting.prepared import PreparedMessages
from walrelay.sinks.servicebus.client import (
    Trouble,
    largest_message,
    link_of,
    open_batch,
    sender_of,
    service_bus,
    too_large,
    trouble_of,
)
from walrelay.sinks.servicebus.messages import DistinctIds, EntityMessage, FittingMessages
from walrelay.sinks.servicebus.settings import ServicebusSettings

_IDLE = 240  # seconds after which a sender is not used again: Service Bus ends it after 600, and its token ends too
_ENTITIES = 1_000  # that are kept while nothing is on its way there
_PARTING = 1.0  # seconds that a sender may take to say good-bye


class _Entity:
    """A queue or topic, and its senders."""

    def __init__(self, name: str, connections: int) -> None:
        self.name, self.turn = name, asyncio.Semaphore(connections)
        self.idle: list[tuple[ServiceBusSender, float]] = []  # and since when, the newest last
        self.largest_message = 0  # bytes; 0: not known yet
        self.accepted = False
        self.messages = 0  # requests that are on their way to it
        self.complaint = ""


class ServicebusConnection:
    """See `walrelay.sinks.hosting.HostedConnection`."""

    def __init__(
        self,
        settings: ServicebusSettings,
        prepared: PreparedMessages[EntityMessage],
        with_id: DistinctIds,
        loop: PumpedLoop,
        fail: Callable[[WalrelayError], None],
    ) -> None:
        self._settings, self._loop, self._fail = settings, loop, fail
        self._convert = FittingMessages(
            AddressTemplate(settings.entity),
            session_ids=settings.session_ids,
            key_header=settings.key_header,
            content_type=settings.content_type,
        )
        self._with_id, self._prepared = with_id, prepared
        self._entities: dict[str, _Entity] = {}
        self._client: ServiceBusClient | None = None

    async def open(self) -> None:
        """Makes the client. Its senders connect when there is something to send."""
        self._client = service_bus(self._settings)

    def send(self, sending: Sending) -> None:
        self._loop.start(self._deliver(sending, [*self._prepared.of(sending)]))

    def push(self) -> None:
        """Tasks go on as soon as the loop runs."""

    def misfit(self, message: Message) -> Misfit | None:
        outgoing = self._convert(message)
        if isinstance(outgoing, Misfit):
            return outgoing
        if fault := _size_fault(outgoing, self._entity(outgoing.entity)):
            return Misfit(fault.reason, fault.hint, fault.error)
        self._prepared.keep(message, self._with_id(outgoing))
        return None

    def trouble(self) -> str:
        complaints = [each.complaint for each in self._entities.values() if each.complaint]
        more = f" ({len(complaints)} entities)" if len(complaints) > 1 else ""
        return f"{complaints[-1]}{more}" if complaints else ""

    def close(self) -> None:
        """The loop has the connections."""

    def _entity(self, name: str) -> _Entity:
        entity = self._entities.get(name)
        if entity is None:
            if len(self._entities) >= _ENTITIES:
                self._forget_idle()
            connections = self._settings.max_connections if self._settings.partitioned else 1
            entity = self._entities[name] = _Entity(name, connections)
        return entity

    def _forget_idle(self) -> None:
        """Names by the row are without end: those are kept to which something is on its way."""
        for entity in [each for each in self._entities.values() if not each.messages]:
            del self._entities[entity.name]
            for sender, _ in entity.idle:
                self._loop.start(_part_from(sender))

    async def _deliver(self, sending: Sending, outgoing: list[EntityMessage]) -> None:
        entity, failures = self._entity(outgoing[0].entity), 0
        entity.messages += 1
        try:
            async with entity.turn:
                while outgoing:
                    why = await self._attempt(entity, outgoing)
                    if why is None:
                        entity.complaint, failures = "", 0
                    elif why.kind == "wait":
                        entity.complaint, failures = why.reason, failures + 1
                        await asyncio.sleep(backed_off(failures))
                    else:
                        _tell(sending, why)
                        return
            sending.durable()
        except Exception as why:
            self._fail(Retryable(f"the client of {self._settings.place} failed: {type(why).__name__}: {why}"))
        finally:
            entity.messages -= 1

    async def _attempt(self, entity: _Entity, outgoing: list[EntityMessage]) -> Trouble | None:
        """Sends what fits into one batch, and takes that from the list once it is accepted."""
        sender = link = None
        count = 0
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                sender = self._sender(entity)
                batch = await open_batch(sender)
                link = link_of(sender)
                entity.largest_message = largest_message(sender)
                if fault := next((fault for each in outgoing if (fault := _size_fault(each, entity))), None):
                    return fault
                messages = [_message(each) for each in outgoing]
                with suppress(MessageSizeExceededError):
                    for each in messages:
                        batch.add_message(each)
                        count += 1
                await sender.send_messages(batch if count > 1 else messages[0], timeout=self._settings.request_timeout)
        except Exception as why:
            found = trouble_of(why, entity.name, link)
            if sender is not None:
                await _part_from(sender)
            if found.error == "not_authorized" and entity.accepted:
                return Trouble("failed", found.reason)  # a token that ended, or a right that is being changed
            return found
        del outgoing[: max(count, 1)]
        entity.accepted = True
        entity.idle.append((sender, monotonic()))
        return None

    def _sender(self, entity: _Entity) -> ServiceBusSender:
        while entity.idle:
            sender, since = entity.idle.pop()
            if monotonic() - since < _IDLE:
                return sender
            self._loop.start(_part_from(sender))
        assert self._client is not None
        return sender_of(self._client, entity.name)


def _tell(sending: Sending, why: Trouble) -> None:
    if why.kind == "refused":
        sending.refused(why.reason, why.hint, why.error, why.scope)
    else:
        sending.failed(why.reason)


def _size_fault(outgoing: EntityMessage, entity: _Entity) -> Trouble | None:
    if not entity.largest_message or outgoing.size <= entity.largest_message:
        return None
    return too_large(outgoing.size, entity.largest_message, entity.name)


def _message(outgoing: EntityMessage) -> ServiceBusMessage:
    return ServiceBusMessage(
        outgoing.body,
        application_properties=dict(outgoing.properties),  # type: ignore[arg-type]
        session_id=outgoing.session_id,
        message_id=outgoing.known.get("message_id"),
        subject=outgoing.known.get("subject"),
        correlation_id=outgoing.known.get("correlation_id"),
        content_type=outgoing.known.get("content_type"),
    )


async def _part_from(sender: ServiceBusSender) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_PARTING):
            await sender.close()
