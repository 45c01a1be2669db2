"""A transaction that is larger than the room of its broker gets through whole, once and in order, as room is made."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Lock
from typing import Any
from uuid import uuid4

import pytest
from nats.aio.client import Client

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.test_every_broker_away import one_run
from tests.acceptance.test_exactly_once import EXACTLY_ONCE
from tests.brokers.nats import NatsStream, request, with_client
from tests.brokers.postgres import PostgresTable, execute
from tests.brokers.rabbitmq import RabbitmqQueue
from tests.brokers.redis import RedisStream
from tests.servers.database import Database
from tests.servers.nats import NatsServer
from tests.servers.postgres import PostgresServer
from tests.servers.topics import Received
from tests.servers.waiting import wait_until
from tests.servers.webhook import Conversation, Endpoint, response

_ROOM = 5
_KEYS = 4


class NatsRoom(NatsStream):
    """A stream that discards what is new."""

    rows, padding = 60, 0

    def __init__(self, server: NatsServer) -> None:
        super().__init__(server)
        config = request(server.url, f"STREAM.INFO.{self.topic}")["config"]
        config |= {"max_msgs": _ROOM, "discard": "new"}
        request(server.url, f"STREAM.UPDATE.{self.topic}", **config)

    def take(self) -> list[bytes]:
        async def work(client: Client) -> list[bytes]:
            jetstream, taken = client.jetstream(timeout=20), []
            state = (await jetstream.stream_info(self.topic)).state
            for number in range(state.first_seq, state.last_seq + 1) if state.messages else ():
                taken.append((await jetstream.get_msg(self.topic, number)).data or b"")
            await jetstream.purge_stream(self.topic, seq=state.last_seq + 1)
            return taken

        return with_client(self._server.url, work)


class PostgresRoom(PostgresTable):
    """A table with a quota."""

    rows, padding = 60, 0

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server)
        execute(
            self.database,
            "CREATE FUNCTION quota() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            f" IF (SELECT count(*) FROM walrelay_events) >= {_ROOM} THEN"
            " RAISE 'the quota is used up' USING ERRCODE = 'disk_full'; END IF; RETURN NEW; END$$",
            "CREATE TRIGGER quota BEFORE INSERT ON walrelay_events FOR EACH ROW EXECUTE FUNCTION quota()",
        )

    def take(self) -> list[bytes]:
        taken = self.database.execute("DELETE FROM walrelay_events RETURNING seq, value::text")
        return [value.encode() for _, value in sorted(taken)]


class RabbitmqRoom(RabbitmqQueue):
    """A queue that rejects what it has no room for."""

    rows, padding = 60, 0
    arguments: dict[str, Any] = {"x-max-length": _ROOM, "x-overflow": "reject-publish"}  # noqa: RUF012

    def take(self) -> list[bytes]:
        return [got.value or b"" for got in self.read_all()]


class RedisRoom(RedisStream):
    """Memory for some sixty entries."""

    rows, padding = 400, 5_000

    def limit(self) -> None:
        with self.client() as client:
            client.config_set("maxmemory", str(client.info("memory")["used_memory"] + 300_000))

    def take(self) -> list[bytes]:
        with self.client() as client:
            found: Any = client.xrange(self.topic, count=10)
            for number, _ in found:
                client.xdel(self.topic, number)
        return [fields[b"payload"] for _, fields in found]


class WebhookRoom:
    """An endpoint that answers 429 while five requests are unread."""

    rows, padding = 60, 0

    def __init__(self) -> None:
        self.topic = f"test-{uuid4().hex[:12]}"
        self.endpoint = Endpoint(self._serve)
        self._unread: list[bytes] = []
        self._away = False
        self._lock = Lock()

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "webhook", "url": self.endpoint.url, "allow_private_addresses": True}

    def take(self) -> list[bytes]:
        with self._lock:
            taken, self._unread = self._unread, []
        return taken

    def read_all(self, *topics: str) -> list[Received]:
        return [Received(self.topic, 0, number, None, body, [], 0) for number, body in enumerate(self.take())]

    def kill(self) -> None:
        self._away = True

    def start(self) -> None:
        self._away = False

    def _serve(self, conversation: Conversation) -> None:
        while not self._away:
            body = conversation.request().body
            with self._lock:
                room = len(self._unread) < _ROOM
                if room:
                    self._unread.append(body)
            conversation.say(response("200 OK" if room else "429 Too Many Requests"))


Room = NatsRoom | PostgresRoom | RabbitmqRoom | RedisRoom | WebhookRoom


@pytest.fixture(params=["nats", "postgres", "rabbitmq", pytest.param("redis", marks=pytest.mark.slow), "webhook"])
def room(request: pytest.FixtureRequest) -> Iterator[Room]:
    with ExitStack() as stack:
        if request.param == "webhook":
            endpoint = WebhookRoom()
            stack.enter_context(endpoint.endpoint)
            yield endpoint
            return
        kinds = {"nats": NatsRoom, "postgres": PostgresRoom, "rabbitmq": RabbitmqRoom, "redis": RedisRoom}
        server = request.getfixturevalue(f"stoppable_{request.param}")
        yield kinds[request.param](server)
        if request.param == "redis":
            with server.client() as client:
                client.config_set("maxmemory", "0")


def test_a_transaction_larger_than_the_room_gets_through_once(deploy: Deploy, database: Database, room: Room) -> None:
    relay = larger_than_the_room(deploy(database, room, room.topic), room)
    assert one_run(relay)
    relay.stop()


@pytest.mark.parametrize("room", ["nats", "postgres", pytest.param("redis", marks=pytest.mark.slow)], indirect=True)
def test_a_transaction_larger_than_the_room_gets_through_exactly_once(
    deploy: Deploy, database: Database, room: Room
) -> None:
    sink = {**room.sink, "stream": room.topic} if isinstance(room, NatsRoom) else room.sink
    relay = larger_than_the_room(deploy(database, room, room.topic, sink=sink, **EXACTLY_ONCE), room)
    assert relay.events("fatal") == []
    relay.stop()


def larger_than_the_room(deployment: Deployment, room: Room) -> RelayProcess:
    """The relay that publishes such a transaction; each event is there once, in the order of its key."""
    relay = deployment.start()
    deployment.write('{"n": 0}')
    deployment.catch_up()
    taken = room.take()
    if isinstance(room, RedisRoom):
        room.limit()
    deployment.write_rows(room.rows, keys=_KEYS, padding=room.padding)
    relay.wait_for("stalled")

    def through() -> bool:
        taken.extend(room.take())
        return len(taken) > room.rows

    wait_until(through, 120, "the whole transaction", interval=0.1)
    deployment.catch_up()
    numbers = [json.loads(each)["n"] for each in taken + room.take()]
    assert sorted(numbers) == [*range(room.rows + 1)], "lost or repeated"
    for key in range(_KEYS):
        of_it = [number for number in numbers[1:] if number % _KEYS == key]
        assert of_it == sorted(of_it), "out of order"
    return relay
