"""NATS: a stream of JetStream's."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import nats as nats_py
from nats.aio.client import Client
from nats.errors import TimeoutError as NothingCame
from nats.js.errors import NotFoundError

from walrelay.lab.brokers.contract import ReadMessage, ServedBroker, messages, until
from walrelay.lab.servers.backstage import LOOPBACK, free_port
from walrelay.lab.servers.installed import nats_answers, nats_arguments, nats_program
from walrelay.sinks.nats.plugin import plugin

T = TypeVar("T")
_MOMENT = 0.05  # seconds


class LabNats(ServedBroker):
    KIND, TITLE, PLUGIN = "nats", "NATS", plugin

    def consumer(self, topic: str) -> "StreamConsumer":
        return StreamConsumer(self._address, topic, _stream(topic))

    def held(self, topic: str) -> int:
        async def ask(client: Client) -> int:
            return (await client.jetstream().stream_info(_stream(topic))).state.messages

        return self._asked(ask)

    def _begin(self) -> str:
        program, directory, self._port = nats_program(), self._backstage.directory("nats"), free_port()
        self._child = self._backstage.start("NATS", [program, *nats_arguments(self._port, directory)])
        return f"nats://{LOOPBACK}:{self._port}"

    def _until_ready(self) -> str:
        until(self._child, lambda: nats_answers(self._port))
        return self._address

    def _version(self) -> str:
        async def ask(client: Client) -> str:
            return str(client.connected_server_version)

        return self._asked(ask)

    def _remove(self, topic: str) -> None:
        async def delete(client: Client) -> None:
            try:
                await client.jetstream().delete_stream(_stream(topic))
            except NotFoundError:
                return

        self._asked(delete)

    def _named(self, topic: str) -> Mapping[str, Any]:
        return {"stream": _stream(topic)} if topic else {}

    def _asked(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def run() -> T:
            client = await connected(self._address)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(run())


class StreamConsumer:
    """From the beginning of the stream, in its order. Its loop is run while somebody waits for a message."""

    def __init__(self, url: str, subject: str, stream: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = self._loop.run_until_complete(connected(url))
        subscribing = self._client.jetstream().subscribe(subject, stream=stream, ordered_consumer=True)
        self._subscription = self._loop.run_until_complete(subscribing)

    def receive(self) -> Iterable[ReadMessage]:
        return messages(self._loop.run_until_complete(self._next()))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()

    async def _next(self) -> list[tuple[Mapping[str, str], bytes]]:
        try:
            found = [await self._subscription.next_msg(timeout=_MOMENT)]
        except NothingCame:
            return []
        while self._subscription.pending_msgs:
            found.append(await self._subscription.next_msg(timeout=_MOMENT))
        return [(each.headers or {}, each.data) for each in found]


async def connected(url: str) -> Client:
    async def say_nothing(_: Exception) -> None:
        """What ends the connection is told by whoever waits for a message."""

    return await nats_py.connect(url.split(","), connect_timeout=10, allow_reconnect=False, error_cb=say_nothing)


def _stream(topic: str) -> str:
    """A stream's name has no dots."""
    return topic.replace(".", "-")
