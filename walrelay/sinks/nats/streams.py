"""Streams: what the doctor asks about them, and what `walrelay init --topics` makes."""

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Literal, TypeVar

from nats.aio.client import Client

from walrelay.errors import SinkError, WalrelayError
from walrelay.model import Finding
from walrelay.sinks.address import AddressTemplate
from walrelay.sinks.hosting import PumpedLoop
from walrelay.sinks.making import making
from walrelay.sinks.nats.api import NO_JETSTREAM, STREAM_NOT_FOUND, ApiError, ask, stream_of
from walrelay.sinks.nats.client import connected
from walrelay.sinks.nats.settings import NatsSettings
from walrelay.sinks.nats.subjects import subject_fault

_SOME = "*"  # in a topic or template: what only a row can say
_ASKING = "Let the user publish to $JS.API.STREAM.NAMES and $JS.API.STREAM.INFO.>"
_MANUAL = "Look at it with nats stream info."
T = TypeVar("T")


def examine(settings: NatsSettings, topics: Sequence[str]) -> Iterator[Finding]:
    """Connects, and asks which streams the subjects are in and how they keep messages."""
    loop = PumpedLoop()
    try:
        yield from _run(loop, settings, _findings(settings, loop, topics))
    except WalrelayError as why:
        yield Finding("sink", "problem", str(why), getattr(why, "hint", "") or "Correct sink.url, or start it.")
    if settings.ordering == "pipelined":
        yield Finding(
            "sink",
            "warning",
            "sink.ordering is pipelined: a message that NATS loses is overtaken by later ones",
            "Set sink.ordering to per_key or chained if consumers need the order.",
        )


def add_subjects(
    settings: NatsSettings, topics: Sequence[str], replication_factor: int | None
) -> Iterator[tuple[str, bool]]:
    """Makes `sink.stream` if it is missing, kept in files, and adds the subjects that it lacks."""
    if settings.stream is None:
        raise SinkError(
            "sink.stream does not say which stream is to have the subjects",
            hint="Set it, or make a stream yourself: nats stream add",
        )
    subjects = [*_subjects(settings, topics)]
    loop = PumpedLoop()
    yield from _run(loop, settings, _made(settings, loop, settings.stream, subjects, replication_factor or 1))


def _run(loop: PumpedLoop, settings: NatsSettings, work: Coroutine[Any, Any, T]) -> T:
    try:
        return loop.run_until_complete(work)
    finally:
        loop.let_go()


async def _nothing(why: Exception) -> None:
    """What NATS says without being asked shows in what is asked next."""


async def _findings(settings: NatsSettings, loop: PumpedLoop, topics: Sequence[str]) -> list[Finding]:
    client = await connected(settings, loop, _nothing)
    version = client.connected_server_version
    found = [Finding("sink", "ok", f"connected to NATS {version.major}.{version.minor}.{version.patch}")]
    streams: dict[str, None] = {} if settings.stream is None else {settings.stream: None}
    for subject, topic in _subjects(settings, topics).items():
        finding, stream = await _examined(client, subject, topic, settings.stream)
        found.append(finding)
        if stream is not None:
            streams[stream] = None
    for stream in streams:
        found += await _kept(client, stream, next(iter(topics), ""))
    return found


async def _examined(client: Client, subject: str, topic: str, wanted: str | None) -> tuple[Finding, str | None]:
    try:
        stream = await stream_of(client, subject)
    except ApiError as why:
        verdict: Literal["problem", "warning"] = "problem" if why.code == NO_JETSTREAM else "warning"
        fix = "Let the server or the account have JetStream." if why.code == NO_JETSTREAM else _ASKING
        return Finding("sink", verdict, f"which stream has {subject!r} cannot be asked for: {why}", fix), None
    if stream is None:
        fix = "Make one: nats stream add; or set sink.stream, and walrelay init --topics makes it."
        if wanted is not None:
            fix = making(topic, f"nats stream edit {wanted} --subjects ...")
        return Finding("sink", "problem", f"no stream has the subject {subject!r}", fix), None
    if wanted is not None and stream != wanted:
        fix = "Correct sink.stream, or the subjects of the streams."
        return Finding("sink", "problem", f"subject {subject!r} is in stream {stream!r}, not in {wanted!r}", fix), None
    return Finding("sink", "ok", f"stream {stream!r} has the subject {subject!r}"), stream


async def _kept(client: Client, stream: str, topic: str) -> list[Finding]:
    """How the stream keeps what it acknowledges."""
    try:
        config = (await ask(client, f"STREAM.INFO.{stream}"))["config"]
    except ApiError as why:
        if why.code == STREAM_NOT_FOUND:
            fix = making(topic, f"nats stream add {stream}") if topic else f"nats stream add {stream}"
            return [Finding("sink", "problem", f"stream {stream!r} does not exist", fix)]
        return [Finding("sink", "warning", f"stream {stream!r} cannot be looked at: {why}", _ASKING)]
    found = []
    if config.get("no_ack"):
        found.append(Finding("sink", "problem", f"stream {stream!r} acknowledges nothing (no_ack)", _MANUAL))
    if config.get("sealed"):
        found.append(Finding("sink", "problem", f"stream {stream!r} is sealed: it takes nothing any more", _MANUAL))
    if config.get("storage") == "memory":
        fix = "Let it keep them in files."
        found.append(Finding("sink", "warning", f"stream {stream!r} keeps its messages in memory", fix))
    elif config.get("num_replicas", 1) < 2:
        what = f"stream {stream!r} has one replica, and NATS acknowledges before a message is on disk"
        fix = f"nats stream edit {stream} --replicas 3 in a cluster, or sync_interval: always in the server's settings."
        found.append(Finding("sink", "warning", what, fix))
    if config.get("retention") == "interest":
        what = f"stream {stream!r} throws away what comes while it has no consumer (retention: interest)"
        found.append(Finding("sink", "warning", what, _MANUAL))
    return found or [Finding("sink", "ok", f"stream {stream!r} has {config['num_replicas']} replicas")]


async def _made(
    settings: NatsSettings, loop: PumpedLoop, stream: str, subjects: Sequence[str], replicas: int
) -> list[tuple[str, bool]]:
    client = await connected(settings, loop, _nothing)
    try:
        try:
            config = (await ask(client, f"STREAM.INFO.{stream}"))["config"]
        except ApiError as why:
            if why.code != STREAM_NOT_FOUND:
                raise
            config = {"name": stream, "subjects": [], "storage": "file", "num_replicas": replicas}
        request = "UPDATE" if config["subjects"] else "CREATE"
        missing = [each for each in subjects if await stream_of(client, each) != stream]
        if missing:
            config["subjects"] = [*config["subjects"], *missing]
            await ask(client, f"STREAM.{request}.{stream}", **config)
    except ApiError as why:
        raise SinkError(f"stream {stream!r} was not made: {why}", hint="Make it yourself: nats stream add") from why
    return [(each, each in missing) for each in subjects]


def _subjects(settings: NatsSettings, topics: Sequence[str]) -> dict[str, str]:
    """Those that are known beforehand, each with its topic. Where only a row can say a part that stands between dots,
    it is NATS's own wildcard.
    """
    template = AddressTemplate(settings.subject)
    found = {template.of_topic(topic): topic for topic in topics} if not template.by_row else {}
    return {subject: topic for subject, topic in found.items() if _is_asked_for(subject)}


def _is_asked_for(subject: str) -> bool:
    parts = subject.split(".")
    known = ".".join(part.replace(_SOME, "x") if part == _SOME else part for part in parts)
    return parts != [_SOME] and not subject_fault(known)
