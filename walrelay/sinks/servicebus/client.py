"""Clients for Service Bus: credentials, one sender for each connection, and what its errors mean."""

import asyncio
from typing import Any, NamedTuple

from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusMessageBatch
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusCommunicationError

from walrelay.certificates import CertificateFiles
from walrelay.errors import SinkError
from walrelay.sinks.servicebus.settings import ServicebusSettings

_NOT_FOUND = {"amqp:not-found"}
_NOT_ALLOWED = {"amqp:unauthorized-access", "com.microsoft:auth-failed"}
_SIZE = {"amqp:link:message-size-exceeded"}
_WAIT = {"amqp:resource-limit-exceeded", "com.microsoft:entity-disabled", "com.microsoft:server-busy"}
_REFUSED = {
    *("amqp:not-allowed", "amqp:not-implemented", "amqp:decode-error", "amqp:invalid-field"),
    *("com.microsoft:argument-error", "com.microsoft:argument-out-of-range"),
}
"""Conditions that say that the message is to blame: a session id is missing, for instance."""

_BETWEEN_FRAMES = 0.01  # seconds
_TOO_LARGE = "Raise the entity's largest message size (Premium), or shorten the event."


class Trouble(NamedTuple):
    """What an error means. `kind`: `refused`, `wait` (the entity takes nothing now) or `failed` (the run is over)."""

    kind: str
    reason: str
    hint: str = ""
    error: str = "refused"
    scope: str = "message"


def service_bus(settings: ServicebusSettings) -> ServiceBusClient:
    """Fatal where the certificates cannot be read. It does not connect."""
    if settings.ca_file is not None:
        CertificateFiles(settings.ca_file).context(settings.place, hint="Correct sink.ca_file.")
    options: dict[str, Any] = {"retry_total": 0, "user_agent": "walrelay"}
    if settings.ca_file is not None:
        options["connection_verify"] = settings.ca_file
    if settings.namespace is not None:
        return ServiceBusClient(settings.namespace, _credential(settings), **options)
    assert settings.connection_string is not None
    try:
        return ServiceBusClient.from_connection_string(settings.connection_string.get_secret_value(), **options)
    except ValueError as why:
        raise SinkError(f"sink.connection_string cannot be used: {why}", hint="Copy it from the portal again.") from why


def sender_of(client: ServiceBusClient, entity: str) -> ServiceBusSender:
    """With a connection of its own. A queue is addressed as a topic is."""
    return client.get_queue_sender(entity)


async def open_batch(sender: ServiceBusSender) -> ServiceBusMessageBatch:
    """Connects, unless it is connected. Raises what the entity says against that."""
    batch = await sender.create_message_batch()
    handler = getattr(sender, "_handler", None)
    while handler is not None and not await handler.client_ready_async():
        await asyncio.sleep(_BETWEEN_FRAMES)  # the client takes a link that was refused for open, until it reads why
    largest = largest_message(sender)
    if 0 < largest < batch.max_size_in_bytes:
        batch = await sender.create_message_batch(max_size_in_bytes=largest)
    return batch


def largest_message(sender: ServiceBusSender) -> int:
    """What the entity has said that a message may have; 0 if it has not."""
    return getattr(sender, "_max_message_size_on_link", 0)


def link_of(sender: ServiceBusSender) -> object:
    """What has the reason if the entity detaches it: the client forgets to say it."""
    return getattr(getattr(sender, "_handler", None), "_link", None)


def trouble_of(why: BaseException, entity: str, link: object = None) -> Trouble:
    """Of what a sender raised: `entity` was not to be had, or did not take a batch."""
    detached = getattr(link, "_error", None)
    why = detached if detached is not None else why
    condition, reason = _condition(why), said(why)
    if isinstance(why, ServiceBusCommunicationError):
        return Trouble("failed", reason)
    if condition in _NOT_FOUND:
        reason = f"there is no queue or topic {entity!r}: {reason}"
        return Trouble("refused", reason, "Make it, or correct sink.entity.", "unknown_topic", "topic")
    if condition in _NOT_ALLOWED:
        reason = f"sending to {entity!r} is not allowed: {reason}"
        hint = "Grant the right to send there (Azure Service Bus Data Sender)."
        return Trouble("refused", reason, hint, "not_authorized", "topic")
    if condition in _SIZE:
        return Trouble("refused", f"{entity!r} takes no message of its size: {reason}", _TOO_LARGE, "too_large")
    if condition in _WAIT:
        return Trouble("wait", f"{entity!r} takes nothing for now: {reason}")
    if condition in _REFUSED:
        return Trouble("refused", f"{entity!r} refused it: {reason}", "Look at the entity's properties.")
    if isinstance(why, TimeoutError):
        reason = f"{entity!r} has not answered in time"
    return Trouble("failed", reason)


def too_large(size: int, most: int, entity: str) -> Trouble:
    """For a message that is not sent because of its size."""
    reason = f"value and properties have {size:,} bytes at least, and {entity!r} takes {most:,}"
    return Trouble("refused", reason, _TOO_LARGE, "too_large")


def said(why: BaseException) -> str:
    """What went wrong, in one line."""
    inner = getattr(why, "inner_exception", None)
    told = getattr(why, "description", None) or getattr(inner, "description", None)
    if isinstance(told, bytes):
        told = told.decode(errors="replace")
    text = told or (why.message if isinstance(why, AzureError) and inner is None else str(inner or why))
    return " ".join(text.split()) or type(why).__name__


def _condition(why: BaseException) -> str:
    found = getattr(why, "condition", None) or getattr(why, "_condition", None) or ""
    found = getattr(found, "value", found)
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)


def _credential(settings: ServicebusSettings) -> Any:
    from azure.identity.aio import ClientSecretCredential, DefaultAzureCredential

    if settings.client_secret is not None:
        assert settings.tenant_id is not None
        assert settings.client_id is not None
        secret = settings.client_secret.get_secret_value()
        return ClientSecretCredential(settings.tenant_id, settings.client_id, secret)
    if settings.client_id is not None:
        return DefaultAzureCredential(managed_identity_client_id=settings.client_id)
    return DefaultAzureCredential()
