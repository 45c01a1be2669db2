"""gRPC's channel to Pub/Sub. Without retries of its own: whether a request is made again is the sink's affair."""

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would write into the relay's log; errors are told by calls

import grpc

from walrelay import __version__
from walrelay.errors import SinkError
from walrelay.sinks.pubsub.settings import PubsubPlace, PubsubSettings

_OPTIONS = [
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.min_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.primary_user_agent", f"walrelay/{__version__}"),
]


def place_of(settings: PubsubSettings) -> PubsubPlace:
    """Fatal where the environment names a place that is none."""
    try:
        return settings.place
    except ValueError as why:
        raise SinkError(f"PUBSUB_EMULATOR_HOST: {why}", hint="Correct it, or set sink.endpoint.") from why


def channel(settings: PubsubSettings) -> Any:
    """Connects when there is something to send. Fatal where certificates cannot be read."""
    address, tls = place_of(settings)
    if not tls:
        return grpc.insecure_channel(address, options=_OPTIONS)
    settings.context("Pub/Sub")  # says what is wrong with the files, as gRPC does not
    certificate = _read(settings.certificate_file)
    credentials = grpc.ssl_channel_credentials(
        _read(settings.ca_file), _read(settings.key_file) or certificate, certificate
    )
    return grpc.secure_channel(address, credentials, options=_OPTIONS)


def _read(file: str | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()
