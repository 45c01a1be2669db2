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
from uuid import uuid4

import pytest
from walrelay_redis_list import RedisListSettings, command, plugin

from walrelay.model import Refusal
from walrelay.publish import Sink
from walrelay.testing import Arrived, AwayContract, answer, message


class Redis:
    """Writes to disk before it answers."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._process = directory, None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self) -> None:
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
    """What the tests of the contract want to know: how the sink is opened, its broker held, and what arrived."""

    def __init__(self, redis: Redis) -> None:
        self.redis, self.topic = redis, f"test-{uuid4().hex[:12]}"
        self.memory = plugin.memory()

    def open(self, *, room: int = 10_000, **settings: object) -> Sink:
        return plugin.open(RedisListSettings(port=self.redis.port, max_in_flight=room, **settings), self.memory)

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
def case(redis: Redis) -> RedisListCase:
    return RedisListCase(redis)


class TestRedisList(AwayContract):
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
        with pytest.raises(Exception, match="Redis does not let us in: -"):
            answer(sink)


def test_the_doctor_says_what_is_there(case: RedisListCase) -> None:
    case.redis.ask("SET", case.topic, "text")
    settings = RedisListSettings(port=case.redis.port)
    assert [each.verdict for each in plugin.examine(settings, ["other", case.topic])] == ["ok", "problem"]
    (away,) = plugin.examine(RedisListSettings(port=1), [])
    assert away.verdict == "problem"
