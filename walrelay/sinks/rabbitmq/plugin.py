"""The RabbitMQ sink's entry point; imports the client library only when a sink is opened."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from walrelay.errors import Fatal
from walrelay.model import Finding
from walrelay.publish.contract import Sink, SinkPlugin
from walrelay.sinks.hosting import HostedSink, RefusalMemory, Window
from walrelay.sinks.hosting.sink import lane_of_key
from walrelay.sinks.rabbitmq.settings import RabbitmqSettings


def _open(settings: RabbitmqSettings, memory: RefusalMemory) -> Sink:
    with _client_library():
        from walrelay.sinks.rabbitmq.connection import RabbitmqConnection
    return HostedSink(
        partial(RabbitmqConnection, settings),
        Window(settings.max_in_flight, settings.max_in_flight_bytes, settings.request_timeout),
        memory,
        "RabbitMQ",
        lane_of=lane_of_key if settings.ordering == "per_key" else None,
    )


def _examine(settings: RabbitmqSettings, topics: Sequence[str]) -> Iterable[Finding]:
    with _client_library():
        from walrelay.sinks.rabbitmq.topology import examine
    return examine(settings, topics)


def _make_topics(
    settings: RabbitmqSettings, topics: Sequence[str], partitions: int, replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    with _client_library():
        from walrelay.sinks.rabbitmq.topology import declare
    return declare(settings, topics, replication_factor)


def topic_fault(name: str) -> str:
    """A topic becomes a routing key, which may be any text of that length."""
    return "" if 0 < len(name.encode(errors="surrogateescape")) <= 255 else "a routing key has 1 to 255 bytes"


@contextmanager
def _client_library() -> Iterator[None]:
    """Around imports that need it."""
    try:
        yield
    except ImportError as cause:
        raise Fatal(
            f"the RabbitMQ client is not installed ({cause})",
            hint="Install it in the environment walrelay runs in: pip install 'walrelay[rabbitmq]'",
        ) from cause


plugin = SinkPlugin(
    RabbitmqSettings,
    open=_open,
    examine=_examine,
    memory=RefusalMemory,
    topic_fault=topic_fault,
    make_topics=_make_topics,
)
