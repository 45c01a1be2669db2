"""The doctor's questions about an endpoint, as far as they can be asked without sending it an event."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

from walrelay.certificates import tls_error
from walrelay.errors import Fatal
from walrelay.model import Finding
from walrelay.sinks.webhook.networks import is_public
from walrelay.sinks.webhook.settings import EndpointUrl, WebhookSettings

_PATIENCE = 10.0  # seconds
_REFUSAL = 1.0  # seconds


def examine(settings: WebhookSettings) -> Iterator[Finding]:
    """Whether its name leads somewhere where it may, somebody listens there, and TLS is as it should be."""
    place = settings.endpoint
    try:
        yield from _reached(settings, place)
    except Fatal as why:
        yield Finding("sink", "problem", str(why), why.hint)
    except OSError as why:
        fix = "Correct sink.url, or start the endpoint."
        if tls := tls_error(why):
            fix = "Correct sink.ca_file, sink.certificate_file and sink.key_file, or the endpoint's certificate."
        yield Finding("sink", "problem", f"{place.origin} cannot be reached: {tls or why}", fix)
    if not place.tls:
        yield Finding(
            "sink",
            "warning",
            "sink.url begins with http://: events and credentials go unencrypted",
            "Let the endpoint have TLS, and write https://.",
        )
    if not settings.signing_secrets:
        yield Finding(
            "sink",
            "warning",
            "sink.signing_secrets is empty: the receiver cannot tell an event of walrelay's from a forged one",
            "Share a secret with the receiver: openssl rand -base64 32 | sed 's/^/whsec_/'",
        )


def _reached(settings: WebhookSettings, place: EndpointUrl) -> Iterator[Finding]:
    found = [str(each[4][0]) for each in socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)]
    allowed = [each for each in found if settings.allow_private_addresses or is_public(each)]
    if not allowed:
        yield Finding(
            "sink",
            "problem",
            f"{place.host} leads to {found[0]}, a private address, where nothing is sent",
            "Correct sink.url, or set sink.allow_private_addresses if it is meant.",
        )
        return
    patience = min(settings.request_timeout, _PATIENCE)
    with socket.create_connection((allowed[0], place.port), patience) as plain:
        how = ""
        if place.tls:
            with settings.context(place.origin).wrap_socket(plain, server_hostname=place.host) as encrypted:
                how = f", {encrypted.version()}"
                _let_it_refuse(encrypted)
    yield Finding("sink", "ok", f"{place.origin} accepts connections (at {allowed[0]}{how}); no event was sent")


def _let_it_refuse(encrypted: ssl.SSLSocket) -> None:
    """Waits for the alert of an endpoint that does not accept our certificate, or misses it: with TLS 1.3 it comes
    after the handshake. OSError then.
    """
    encrypted.settimeout(_REFUSAL)
    with suppress(TimeoutError):
        encrypted.recv(1)
