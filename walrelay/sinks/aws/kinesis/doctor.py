"""Streams of Kinesis: what the doctor asks about them, and what `walrelay init --topics` makes."""

from collections.abc import Iterator, Sequence
from typing import Any

from botocore.exceptions import ClientError

from walrelay.errors import SinkError
from walrelay.model import Finding
from walrelay.sinks.aws.arns import name_of
from walrelay.sinks.aws.asking import findings, is_missing, known_places, made
from walrelay.sinks.aws.kinesis.api import KinesisApi, named, stream_fault
from walrelay.sinks.aws.kinesis.settings import KinesisSettings

_READY = {"ACTIVE", "UPDATING"}


def examine(settings: KinesisSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Asks for the summary of each stream."""

    def ask(client: Any, stream: str) -> Iterator[Finding]:
        found = client.describe_stream_summary(**named(stream))["StreamDescriptionSummary"]
        name, status = name_of(stream), found["StreamStatus"]
        if status not in _READY:
            yield Finding("sink", "warning", f"stream {name!r} takes nothing now: it is {status}", "Wait for it.")
            return
        shards, hours = found["OpenShardCount"], found["RetentionPeriodHours"]
        what = f"stream {name!r} has {shards} open shards, and keeps records for {hours} hours"
        yield Finding("sink", "ok", what)

    places = known_places(settings.stream, topics)
    yield from findings(
        KinesisApi(settings),
        settings,
        places,
        ask,
        stream_fault,
        "correct sink.stream",
        lambda client: client.list_streams(Limit=1),
    )
    if settings.format == "value":
        yield Finding("sink", "warning", "sink.format is value: consumers recognise a repetition by the payload alone")


def make_streams(settings: KinesisSettings, topics: Sequence[str], shards: int) -> Iterator[tuple[str, bool]]:
    """With so many shards."""

    def make(client: Any, stream: str) -> bool:
        try:
            client.describe_stream_summary(**named(stream))
        except ClientError as why:
            if not is_missing(why):
                raise
            client.create_stream(StreamName=name_of(stream), ShardCount=shards)
            return True
        return False

    streams = known_places(settings.stream, topics)
    for stream in streams:
        if fault := stream_fault(stream):
            raise SinkError(f"{stream!r} cannot be made: {fault}", hint="Correct sink.stream.")
    yield from made(KinesisApi(settings), settings, streams, make)
