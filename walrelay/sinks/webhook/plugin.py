"""The webhook sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Sequence
from functools import partial
from math import inf

from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.address import place_by
from walrelay.sinks.clients import client_library
from walrelay.sinks.hosting import HostedSink
from walrelay.sinks.webhook.doctor import examine
from walrelay.sinks.webhook.memory import EndpointMemory
from walrelay.sinks.webhook.settings import WebhookSettings


def _open(settings: WebhookSettings, memory: EndpointMemory) -> Sink:
    with client_library("webhook", "webhook"):
        from walrelay.sinks.webhook.connection import WebhookConnection
    window = settings.window._replace(seconds=inf)  # each request has its own deadline
    return HostedSink(partial(WebhookConnection, settings, memory), window, memory, settings.endpoint.origin)


def _examine(settings: WebhookSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with client_library("webhook", "webhook"):
        import aiohttp  # noqa: F401
    return examine(settings)


def topic_fault(name: str) -> str:
    """A topic may become a part of the URL's path."""
    return "an empty name, . and .. are no parts of a URL" if name in ("", ".", "..") else ""


plugin = SinkPlugin(
    WebhookSettings,
    open=_open,
    examine=_examine,
    memory=EndpointMemory,
    topic_fault=topic_fault,
    place=lambda settings: place_by(settings.endpoint.path),
    traits=SinkTraits(
        durable="answered with 2xx by the endpoint",
        order="of each topic and key",
        repeats="recognised by webhook-id",
        headers="UTF-8 without control characters; names of letters, digits and hyphens, none of HTTP's own",
        size="what the endpoint takes",
        client="aiohttp",
        extra="webhook",
    ),
)
