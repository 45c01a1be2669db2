"""docs/examples/redis-list: a sink of another package, installed beside walrelay, and the guide that shows it."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Deploy
from tests.acceptance.relay_process import WALRELAY
from tests.acceptance.writing import Writers
from tests.servers.database import Database
from tests.servers.redis import RedisServer
from tests.servers.topics import Received
from walrelay.publish.plugins import entry_points_by_kind

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "redis-list"
GUIDE = DOCS / "guides" / "writing-a-sink.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package as pip installs it, without a network."""
    target = tmp_path_factory.mktemp("package")
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "redis-list")
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """For this process, and for those that it starts."""
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.syspath_prepend(package)
    entry_points_by_kind.cache_clear()
    yield package
    entry_points_by_kind.cache_clear()


class RedisList:
    """`Broker`. A list of a server."""

    def __init__(self, server: RedisServer) -> None:
        self._server, self.topic = server, "orders"
        self.kill, self.start = server.kill, server.start

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "redis-list", "host": "127.0.0.1", "port": self._server.port}

    def read_all(self, *topics: str) -> list[Received]:
        with self._server.client() as client:
            entries = [json.loads(entry) for entry in client.lrange(self.topic, 0, -1)]
        keys: dict[str, int] = {}
        return [
            Received(
                self.topic,
                keys.setdefault(entry["key"], len(keys)),
                number,
                entry["key"].encode(),
                entry["payload"].encode(),
                [(name, value.encode()) for name, value in entry["headers"]],
                0,
            )
            for number, entry in enumerate(entries)
        ]


def test_its_own_tests_pass_where_it_is_installed(installed: Path, redis: RedisServer, tmp_path: Path) -> None:
    """`redis`: skipped where no server is."""
    directory = shutil.copytree(EXAMPLE, tmp_path / "redis-list")
    (directory / "walrelay_redis_list.py").unlink()  # the installed one is tested
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--config-file", "pyproject.toml"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_the_command_knows_it(installed: Path) -> None:
    told = json.loads(subprocess.run([WALRELAY, "sinks", "--json"], check=True, capture_output=True).stdout)
    (ours,) = (each for each in told if each["kind"] == "redis-list")
    assert (ours["package"], ours["delivery"]) == ("walrelay-redis-list", ["at_least_once"])


def test_events_arrive_in_order_though_relay_and_broker_are_killed(
    installed: Path, deploy: Deploy, database: Database, stoppable_redis: RedisServer
) -> None:
    stoppable_redis.start()
    with stoppable_redis.client() as client:
        client.flushall()
    deployment = deploy(database, RedisList(stoppable_redis), "orders")
    assert "connected to Redis at 127.0.0.1" in deployment.command("doctor", exit_code=None)
    relay = deployment.start()
    with Writers(database, seed=52, pause=0.02) as writers:
        writers.wait_for_more(200)
        relay.kill()
        relay = deployment.start()
        writers.wait_for_more(200)
        stoppable_redis.kill()
        writers.wait_for_more(100)
        stoppable_redis.start()
        writers.wait_for_more(100)
    deployment.catch_up()
    assert len(relay.events("streaming")) == 1, "the run ended"
    assert_delivered(deployment, writers)


def test_what_the_guide_shows_is_the_example() -> None:
    module, tests = (EXAMPLE / name for name in ("walrelay_redis_list.py", "test_redis_list.py"))
    blocks = re.findall(r"```(python|text)\n(.*?)```", GUIDE.read_text(), re.S)
    sources = [module.read_text(), tests.read_text(), (EXAMPLE / "pyproject.toml").read_text()]
    for kind, text in blocks:
        assert any(text.strip() in source for source in sources), f"{kind}:\n{text}"
    code = [line for kind, text in blocks if kind == "python" for line in text.splitlines() if line.strip()]
    missing = [line for line in module.read_text().splitlines() if line.strip() and line not in code]
    assert missing == [], "the guide has all of the module"


def test_what_the_guide_names_can_be_imported_from_there() -> None:
    rows = re.findall(r"^\| `(walrelay[\w.]*)` \| (.*) \|$", GUIDE.read_text(), re.M)
    assert len(rows) == 5
    for module, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"
