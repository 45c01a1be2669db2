"""A sink for walrelay: each event is appended (RPUSH) to the list of Redis that has its topic's name, as JSON."""

import asyncio
import json
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from pydantic import Field, SecretStr

from walrelay.errors import Retryable, WalrelayError
from walrelay.model import Finding, Message
from walrelay.publish import Sink, SinkPlugin, SinkTraits
from walrelay.sinks.hosting import HostedSettings, HostedSink, Misfit, PumpedLoop, RefusalMemory, Sending


class RedisListSettings(HostedSettings):
    """`kind: redis-list`: events at the end of lists, for workers that take them from the front."""

    host: str = Field("localhost", description="Where Redis is.")
    port: int = Field(6379, ge=1, le=65535, description="Its port.")
    password: SecretStr | None = Field(None, description="For AUTH, as the user `default`.")


LARGEST = 512 * 2**20  # proto-max-bulk-len, as Redis has it unless somebody changes it


def entry_of(message: Message) -> bytes:
    """ValueError for what JSON cannot hold as it is."""
    entry = {
        "key": text(message.key),
        "headers": [[name, text(value)] for name, value in message.headers],
        "payload": text(message.value),
    }
    return json.dumps(entry, ensure_ascii=False).encode()


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def command(*words: bytes) -> bytes:
    """As Redis reads it: how many words, and each with its length."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


NOT_NOW = ("BUSY", "LOADING", "MISCONF", "NOREPLICAS", "OOM", "READONLY")


class RedisListConnection:
    """One connection. Redis answers commands in their order, so the oldest sending is the one that is answered."""

    def __init__(self, settings: RedisListSettings, loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> None:
        self._settings, self._loop, self._fail = settings, loop, fail
        self._unanswered: deque[Sending] = deque()
        self._trouble = ""

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._settings.host, self._settings.port)
        if self._settings.password is not None:
            self._writer.write(command(b"AUTH", self._settings.password.get_secret_value().encode()))
            if (said := await self._answer()) != "+OK":
                self._trouble = said
                raise Retryable(f"Redis does not let us in: {said}")
        self._loop.start(self._listen())

    def send(self, sending: Sending) -> None:
        ((message, _),) = sending.taken
        self._unanswered.append(sending)
        self._writer.write(command(b"RPUSH", message.topic.encode(), entry_of(message)))

    def push(self) -> None:
        """Nothing is held back."""

    def misfit(self, message: Message) -> Misfit | None:
        try:
            message.topic.encode()
            size = len(entry_of(message))
        except ValueError as why:
            return Misfit(f"it is not UTF-8: {why}", "Encode the event as text, or use another sink.")
        if size > LARGEST:
            return Misfit(f"it has {size} bytes, and Redis takes {LARGEST}", "Make the event smaller.", "too_large")
        return None

    def trouble(self) -> str:
        return self._trouble

    def close(self) -> None:
        """The loop aborts the connection."""

    async def _listen(self) -> None:
        try:
            while True:
                self._answered(await self._answer())
        except OSError as why:
            self._fail(Retryable(f"the connection to Redis is gone: {why}"))

    async def _answer(self) -> str:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError("Redis has closed it")
        return line.decode(errors="replace").strip()

    def _answered(self, said: str) -> None:
        sending = self._unanswered.popleft()
        topic = sending.taken[0].message.topic
        if said.startswith(":"):  # how long the list is now
            sending.durable()
        elif said.startswith("-WRONGTYPE"):
            hint = f"DEL it, or route the events elsewhere: redis-cli TYPE {topic}"
            sending.refused(f"{topic!r} is no list", hint, "unknown_topic", "topic")
        elif said.startswith("-NOPERM"):
            hint = f"ACL SETUSER default ~{topic} +rpush"
            sending.refused(said[1:], hint, "not_authorized", "topic")
        elif said[1:].startswith(NOT_NOW):
            sending.not_now(f"Redis takes nothing now: {said[1:]}")
        else:
            sending.failed(f"Redis does not do what it is asked: {said[1:]}")


def open_sink(settings: RedisListSettings, memory: RefusalMemory) -> Sink:
    def connect(loop: PumpedLoop, fail: Callable[[WalrelayError], None]) -> RedisListConnection:
        return RedisListConnection(settings, loop, fail)

    address = f"{settings.host}:{settings.port}"
    return HostedSink(connect, settings.window, memory, "Redis", address=address)


def examine(settings: RedisListSettings, topics: Sequence[str]) -> Iterator[Finding]:
    try:
        with socket.create_connection((settings.host, settings.port), timeout=5) as connection:
            answers = connection.makefile("rb")

            def ask(*words: str) -> str:
                connection.sendall(command(*(word.encode() for word in words)))
                return answers.readline().decode(errors="replace").strip()

            if settings.password is not None:
                ask("AUTH", settings.password.get_secret_value())
            if (said := ask("PING")) != "+PONG":
                yield Finding("sink", "problem", f"Redis does not let us in: {said[1:]}", "Correct sink.password.")
                return
            yield Finding("sink", "ok", f"connected to Redis at {settings.host}:{settings.port}")
            for topic in topics:
                if "*" not in topic and (kind := ask("TYPE", topic)) not in ("+list", "+none"):
                    fix = f"redis-cli DEL {topic}, or another topic"
                    yield Finding(f"list {topic}", "problem", f"{topic!r} is a {kind[1:]}, no list", fix)
    except OSError as why:
        what = f"Redis at {settings.host}:{settings.port} cannot be reached: {why}"
        yield Finding("sink", "problem", what, "Correct sink.host and sink.port, or start Redis.")


plugin = SinkPlugin(
    RedisListSettings,
    open=open_sink,
    examine=examine,
    memory=RefusalMemory,
    traits=SinkTraits(
        durable="answered by Redis; on disk with `appendfsync always`",
        order="of each topic and key",
        repeats="recognised by the header id",
        headers="UTF-8, null, repeated names",
        size="512 MiB",
    ),
)
