"""Queues: what the doctor asks about them, and what `walrelay init --topics` makes."""

from collections.abc import Iterator, Sequence
from typing import Any

from botocore.exceptions import ClientError

from walrelay.errors import SinkError
from walrelay.model import Finding
from walrelay.sinks.aws.arns import name_of
from walrelay.sinks.aws.asking import findings, is_missing, known_places, made
from walrelay.sinks.aws.sqs.api import SqsApi
from walrelay.sinks.aws.sqs.queues import is_url, lookup, queue_fault
from walrelay.sinks.aws.sqs.settings import SqsSettings
from walrelay.sinks.aws.texts import FIFO, ordering_fault

_DAY = 86_400


def examine(settings: SqsSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Asks for the attributes of each queue."""
    fifo = settings.ordering == "per_key"
    yield from findings(
        SqsApi(settings),
        settings,
        known_places(settings.queue, topics),
        _queue,
        lambda queue: queue_fault(queue) or ordering_fault(queue, fifo=fifo),
        "correct sink.queue",
        lambda client: client.list_queues(MaxResults=1),
    )
    if not fifo:
        yield Finding("sink", "warning", "sink.ordering is none: standard queues have no order, and repeat messages")


def make_queues(settings: SqsSettings, topics: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """FIFO where their names say so, with SQS's other defaults."""
    queues = known_places(settings.queue, topics)
    for queue in queues:
        if fault := queue_fault(queue) or ordering_fault(queue, fifo=settings.ordering == "per_key"):
            raise SinkError(f"{queue!r} cannot be made: {fault}", hint="Correct sink.queue.")
    yield from made(SqsApi(settings), settings, queues, _make)


def _queue(client: Any, queue: str) -> Iterator[Finding]:
    url = queue if is_url(queue) else client.get_queue_url(**lookup(queue))["QueueUrl"]
    attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    days = int(attributes.get("MessageRetentionPeriod", 4 * _DAY)) / _DAY
    yield Finding("sink", "ok", f"queue {name_of(queue)!r} is there, and keeps messages for {days:g} days")
    if days < 1:
        what = f"queue {name_of(queue)!r} drops what nobody has received for {days * 24:g} hours"
        yield Finding("sink", "warning", what, "Raise its MessageRetentionPeriod.")


def _make(client: Any, queue: str) -> bool:
    try:
        client.get_queue_url(**lookup(name_of(queue)))
    except ClientError as why:
        if not is_missing(why):
            raise
        name = name_of(queue)
        client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"} if name.endswith(FIFO) else {})
        return True
    return False
