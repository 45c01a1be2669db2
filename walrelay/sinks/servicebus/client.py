"""Clients for Service Bus: credentials, one sender for each connection, and what its errors mean."""

from typing import Any, NamedTuple

from azure.core.exceptions import AzureError
from azure.servicebus import exceptions
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

from walrelay.errors import Fatal
from walrelay.sinks.servicebus.settings import ServicebusSettings

_WAIT = (
    exceptions.ServiceBusQuotaExceededError,
    exceptions.MessagingEntityDisabledError,
    exceptions.ServiceBusServerBusyError,
)
_REFUSED = {
    *("amqp:not-allowed", "amqp:not-implemented", "amqp:decode-error", "amqp:invalid-field"),
    *("com.microsoft:argument-error", "com.microsoft:argument-out-of-range"),
}
"""Conditions that say that the message is to blame: a session id is missing, for instance."""

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
        try:
            with open(settings.ca_file, "rb"):
                pass
        except OSError as why:
            raise Fatal(
                f"the certificates for {settings.place} cannot be read: {why}", hint="Correct sink.ca_file."
            ) from why
    options: dict[str, Any] = {"retry_total": 0, "user_agent": "walrelay"}
    if settings.ca_file is not None:
        options["connection_verify"] = settings.ca_file
    if settings.namespace is not None:
        return ServiceBusClient(settings.namespace, _credential(settings), **options)
    assert settings.connection_string is not None
    try:
        return ServiceBusClient.from_connection_string(settings.connection_string.get_secret_value(), **options)
    except ValueError as why:
        raise Fatal(f"sink.connection_string cannot be used: {why}", hint="Copy it from the portal again.") from why


def sender_of(client: ServiceBusClient, entity: str) -> ServiceBusSender:
    """With a connection of its own. A queue is addressed as a topic is."""
    return client.get_queue_sender(entity)


def largest_message(sender: ServiceBusSender) -> int:
    """What the entity has said that a message may have; 0 if it has not."""
    return getattr(sender, "_max_message_size_on_link", 0)


def trouble_of(why: BaseException, entity: str) -> Trouble:
    """Of what a sender raised. `entity` was not to be had, or did not take a batch."""
    reason = said(why)
    condition = str(getattr(why, "_condition", None) or "")
    match why:
        case exceptions.MessagingEntityNotFoundError():
            return Trouble(
                "refused",
                f"there is no queue or topic {entity!r}: {reason}",
                "Make it, or correct sink.entity.",
                "unknown_topic",
                "topic",
            )
        case exceptions.ServiceBusAuthorizationError():
            return Trouble(
                "refused",
                f"sending to {entity!r} is not allowed: {reason}",
                "Grant the right to send there (Azure Service Bus Data Sender).",
                "not_authorized",
                "topic",
            )
        case exceptions.MessageSizeExceededError():
            return Trouble("refused", f"{entity!r} takes no message of its size: {reason}", _TOO_LARGE, "too_large")
        case exceptions.ServiceBusError() if isinstance(why, _WAIT):
            return Trouble("wait", f"{entity!r} takes nothing for now: {reason}")
        case exceptions.ServiceBusError() if condition in _REFUSED:
            return Trouble("refused", f"{entity!r} refused it: {reason}", "Look at the entity's properties.")
        case TimeoutError():
            return Trouble("failed", f"{entity!r} has not answered in time")
        case _:
            return Trouble("failed", reason)


def too_large(size: int, most: int, entity: str) -> Trouble:
    """For a message that is not sent because of its size."""
    reason = f"value and properties have {size:,} bytes at least, and {entity!r} takes {most:,}"
    return Trouble("refused", reason, _TOO_LARGE, "too_large")


def said(why: BaseException) -> str:
    """What went wrong, in one line."""
    text = why.message if isinstance(why, AzureError) else str(why)
    return " ".join(text.split()) or type(why).__name__


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
