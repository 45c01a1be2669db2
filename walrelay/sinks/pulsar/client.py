"""The client library: how a client and its producers are made, and what its results mean.

It is used below its Python classes, by callbacks. Its threads take the interpreter's lock while they hold locks of
their own: to call a callback, to copy or to drop one, and to log through Python, which is therefore off. So a call that
keeps the interpreter's lock must not need such a lock: both threads would wait for ever, and the process with them.
`flush_async` is such a call. These let go of the interpreter's lock: `create_producer_async_v2`, `send_async`,
`close_async`, `get_topic_partitions_async`. `is_connected` keeps it, and needs a lock that nobody keeps meanwhile.
"""

import os
import ssl
from collections import deque
from contextlib import suppress
from math import ceil
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple
from weakref import ref

import pulsar
from pulsar import _pulsar

from walrelay.errors import SinkError
from walrelay.sinks.pulsar.messages import ForPulsar, partition
from walrelay.sinks.pulsar.settings import PulsarSettings

OK = _pulsar.Result.Ok
_BATCH_MS = 0  # milliseconds that a batch waits for more: none can be told to leave sooner (see above)
_LETTING_GO = 1.0  # seconds
_GLANCE = 0.001  # seconds
_EVERYTHING = 2**31 - 1


class PulsarVerdict(NamedTuple):
    """Why Pulsar will never take it, in the words of a Refusal."""

    reason: str
    hint: str
    error: str
    scope: str = "topic"


VERDICTS = {
    _pulsar.Result.TopicNotFound: PulsarVerdict(
        "the topic or its namespace does not exist",
        "Make it (pulsar-admin namespaces create, pulsar-admin topics create), or correct sink.topic.",
        "unknown_topic",
    ),
    _pulsar.Result.AuthorizationError: PulsarVerdict(
        "the relay's role may not produce there",
        "pulsar-admin namespaces grant-permission TENANT/NAMESPACE --role ROLE --actions produce",
        "not_authorized",
    ),
    _pulsar.Result.InvalidTopicName: PulsarVerdict(
        "that is no name of a topic", "Correct sink.topic, or the topic.", "invalid_topic"
    ),
    _pulsar.Result.TopicTerminated: PulsarVerdict(
        "the topic was terminated, and takes nothing any more", "Publish to another one.", "topic_terminated"
    ),
    _pulsar.Result.IncompatibleSchema: PulsarVerdict(
        "the topic has a schema, and its namespace asks producers for it",
        "pulsar-admin namespaces set-schema-validation-enforce --disable TENANT/NAMESPACE",
        "invalid_record",
    ),
    _pulsar.Result.MessageTooBig: PulsarVerdict(
        "the message is larger than the broker takes",
        "Raise maxMessageSize of the brokers and of the bookies, or lower sink.max_message_size to theirs.",
        "too_large",
        "message",
    ),
}

_FULL = {
    _pulsar.Result.ProducerBlockedQuotaExceededError,
    _pulsar.Result.ProducerBlockedQuotaExceededException,
}


def said(result: Any) -> str:
    """What a result that is no verdict means."""
    if result in _FULL:
        return "its backlog is as large as the namespace's quota allows"
    if result == _pulsar.Result.Timeout:  # the client tries again for ever, and keeps to itself why
        return (
            "Timeout: nothing answers at sink.url, or every connection is closed there, as it is with wrong credentials"
            " and with TLS on one side only"
        )
    return str(result).removeprefix("Result.")


def made_client(settings: PulsarSettings) -> Any:
    """Not connected yet. Fatal where the settings cannot be used."""
    config = _pulsar.ClientConfiguration()
    config.set_file_logger(_pulsar.LoggerLevel.Error, os.devnull)
    config.operation_timeout_seconds(max(1, ceil(settings.request_timeout)))
    config.connection_timeout(max(1, ceil(min(settings.request_timeout, 10) * 1000)))
    config.stats_interval_in_seconds(0)
    if settings.url.startswith("pulsar+ssl://"):
        settings.context("Pulsar")  # its files can be read
        config.tls_trust_certs_file_path(settings.ca_file or _trusted())
        config.tls_validate_hostname(True)
        if settings.certificate_file:
            key_file = settings.key_file or settings.certificate_file
            config.tls_certificate_file_path(settings.certificate_file)
            config.tls_private_key_file_path(key_file)
    authentication = _authentication(settings)
    if authentication is not None:
        config.authentication(authentication.auth)
    try:
        return _pulsar.Client(settings.url, config)
    except Exception as why:
        raise SinkError(
            f"sink.url is no address of Pulsar: {why}", hint="pulsar://broker-1:6650,broker-2:6650"
        ) from why


def producer_config(settings: PulsarSettings) -> Any:
    """Of producers that keep trying, in order, until they are closed."""
    config = _pulsar.ProducerConfiguration()
    config.schema(pulsar.schema.BytesSchema().schema_info())
    config.send_timeout_millis(0)
    # Otherwise a producer that is connected again before it has any receipt counts from the beginning once more, and a
    # broker that deduplicates drops what is new then, with an acknowledgement.
    config.initial_sequence_id(0)
    config.block_if_queue_full(False)
    config.max_pending_messages(settings.max_in_flight + 1)
    config.max_pending_messages_across_partitions(_EVERYTHING)
    config.batching_enabled(settings.batching)
    config.batching_max_publish_delay_ms(_BATCH_MS)
    config.compression_type(_compression(settings.compression))
    config.message_router(lambda message, partitions: partition(message.partition_key(), partitions))
    return config


def let_go(client: Any) -> None:
    """Closes it, within a second or two. Nothing is sent any more, and its threads have done with the interpreter: one
    that asks for its lock while the process ends crashes the process.
    """
    dropped = deque[Any]()

    def closed(result: Any) -> None:
        pass

    # The last that a thread of the client does is to drop what it has called.
    watched = ref(closed, dropped.append)
    with suppress(Exception):
        client.close_async(closed)
    del closed
    _await(dropped)
    if watched() is not None:  # a producer waits for the broker to say goodbye
        with suppress(Exception):
            client.shutdown()
        _await(dropped)


def _await(something: deque[Any]) -> None:
    deadline = monotonic() + _LETTING_GO
    while not something and monotonic() < deadline:
        sleep(_GLANCE)


def built(message: ForPulsar) -> Any:
    """As the client's producers take it."""
    builder = _pulsar.MessageBuilder()
    if message.payload is None:
        builder.set_null_value()
    else:
        builder.content(message.payload)
    if message.key is not None:
        builder.partition_key(message.key)
    if message.ordering_key is not None:
        builder.ordering_key(message.ordering_key)
    if message.timestamp_ms > 0:
        builder.event_timestamp(message.timestamp_ms)
    builder.properties(message.properties)
    return builder.build()


def _authentication(settings: PulsarSettings) -> Any:
    if settings.token is not None:
        return pulsar.AuthenticationToken(settings.token.get_secret_value())
    if settings.token_file is not None:
        return pulsar.AuthenticationToken(_TokenFile(Path(settings.token_file)).token)
    if settings.username is not None and settings.password is not None:
        return pulsar.AuthenticationBasic(settings.username, settings.password.get_secret_value())
    if settings.certificate_file is not None and settings.url.startswith("pulsar+ssl://"):
        return pulsar.AuthenticationTLS(settings.certificate_file, settings.key_file or settings.certificate_file)
    return None


class _TokenFile:
    """Is read anew for each connection. While it cannot be read, because it is being renewed, what was in it is used.
    Fatal where it cannot be read at first.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._token = self._read()
        except (OSError, UnicodeDecodeError) as why:
            raise SinkError(f"sink.token_file cannot be read: {why}", hint="Correct sink.token_file.") from why

    def token(self) -> str:
        with suppress(OSError, UnicodeDecodeError):
            self._token = self._read() or self._token
        return self._token

    def _read(self) -> str:
        return self._file.read_text().strip()


def _trusted() -> str:
    """The system's certificates, or those that come with the client."""
    system = ssl.get_default_verify_paths().cafile
    if system is None:
        import certifi

        return certifi.where()
    return system


def _compression(name: str) -> Any:
    known = {"none": "NONE", "lz4": "LZ4", "zlib": "ZLib", "zstd": "ZSTD", "snappy": "SNAPPY"}
    return getattr(_pulsar.CompressionType, known[name])
