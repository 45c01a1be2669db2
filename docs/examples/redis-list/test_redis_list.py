"""The sink keeps walrelay's contract, on a Redis of its own."""

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import ClassVar
from uuid import uuid4

import pytest
from walrelay_redis_list import RedisListSettings, command, plugin

from walrelay.model import Message, Refusal
from walrelay.publish import Sink
from walrelay.testing import (
    Arrived,
    AwayContract,
    ConnectionContract,
    PluginContract,
    Proxy,
    RefusalContract,
    RestartContract,
    answer,
    complains,
    message,
)


class Redis:
    """Writes to disk before it answers."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._process = directory, None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self) -> None:
        """Unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._directory)]
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self._process = subprocess.Popen(["redis-server", *options, *durable], stdout=subprocess.DEVNULL)
        deadline = monotonic() + 20
        while monotonic() < deadline:
            try:
                if self.ask("PING") == "PONG":
                    return
            except OSError:
                pass
            sleep(0.02)
        raise AssertionError("Redis did not start")

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait(10)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    def ask(self, *words: str) -> object:
        """Redis's answer: text, a number or a list."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(command(*(word.encode() for word in words)))
            return self._answer(connection.makefile("rb"))

    def _answer(self, answers: object) -> object:
        first = answers.readline()
        sign, rest = first[:1], first[1:].strip()
        if sign == b"*":
            return [self._answer(answers) for _ in range(int(rest))]
        if sign == b"$":
            return answers.read(int(rest) + 2)[:-2]
        if not first.endswith(b"\n"):
            raise ConnectionResetError
        return rest.decode()


class RedisListCase:
    """How the sink is opened, how its broker and its connections are broken, and what arrived."""

    plugin = plugin
    nowhere: ClassVar = {"port": 1}

    def __init__(self, redis: Redis, proxy: Proxy) -> None:
        self.redis, self.topic = redis, f"test-{uuid4().hex[:12]}"
        self.memory = plugin.memory()
        self.settings = {"host": "127.0.0.1", "port": proxy.port}
        self.kill, self.start = redis.kill, redis.start
        self.cut, self.half_open, self.resume = proxy.cut, proxy.half_open, proxy.resume

    def open(self, *, room: int = 10_000, seconds: float = 30, **settings: object) -> Sink:
        chosen = {**self.settings, "max_in_flight": room, "request_timeout": seconds, **settings}
        return plugin.open(RedisListSettings.model_validate(chosen), self.memory)

    def refused(self, message: Message) -> Message:
        return message._replace(headers=[*message.headers, ("not-utf-8", b"\xff")])

    def hold(self) -> None:
        self.redis.signal(signal.SIGSTOP)

    def release(self) -> None:
        self.redis.signal(signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        entries = [json.loads(entry) for entry in self.redis.ask("LRANGE", self.topic, "0", "-1")]
        return [
            Arrived(
                bytes_of(entry["key"]),
                bytes_of(entry["payload"]),
                [(name, bytes_of(value)) for name, value in entry["headers"]],
            )
            for entry in entries
        ]


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def case(redis: Redis) -> Iterator[RedisListCase]:
    with Proxy(("127.0.0.1", redis.port)) as proxy:
        yield RedisListCase(redis, proxy)


class TestRedisList(AwayContract, RestartContract, ConnectionContract, RefusalContract, PluginContract):
    """The tests are inherited."""


def test_what_is_no_list_refuses_the_events_of_its_topic(case: RedisListCase) -> None:
    case.redis.ask("SET", case.topic, "text")
    with closing(case.open()) as sink:
        assert sink.publish(message(case, 0), 0)
        told = answer(sink)
    assert isinstance(told, Refusal)
    assert (told.error, told.scope) == ("unknown_topic", "topic")


def test_a_wrong_password_is_waited_for(case: RedisListCase) -> None:
    with closing(case.open(password="wrong")) as sink:
        assert sink.publish(message(case, 0), 0)
        assert "Redis does not let us in: -" in complains(sink)


def test_the_doctor_says_what_is_there(case: RedisListCase) -> None:
    case.redis.ask("SET", case.topic, "text")
    settings = RedisListSettings(port=case.redis.port)
    assert [each.verdict for each in plugin.examine(settings, ["other", case.topic])] == ["ok", "problem"]
    (away,) = plugin.examine(RedisListSettings(port=1), [])
    assert away.verdict == "problem"
