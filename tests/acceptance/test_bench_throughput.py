"""`walrelay bench throughput`: every reader drains the whole backlog, and nothing is left however it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.test_demo import OBJECTS
from tests.servers.database import Database

KEYS = [
    "name",
    "events_per_second",
    "ratio_to_limit",
    "cpu_s_per_million",
    "walsender_cpu_s_per_million",
    "peak_rss_bytes",
    "round_events_per_second",
]


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str


class Bench:
    """The command in a session and a temporary directory of its own."""

    def __init__(self, temporary: Path) -> None:
        self._environment: Mapping[str, str] = {**os.environ, "TMPDIR": str(temporary), "COLUMNS": "120"}
        self._temporary = temporary

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "walrelay", "bench", "throughput", *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> Ended:
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=100)
        return Ended(process.returncode, stdout, stderr)

    def reading(self, database: Database) -> subprocess.Popen[str]:
        """One that has begun to read, and has an hour to go."""
        process = self.start("--events", "30000", "--rounds", "50", "--only", "null", "--dsn", database.dsn)
        assert process.stdout is not None
        while "round 1/50" not in (line := process.stdout.readline()):
            assert line, "it ended before it read"
        return process

    @property
    def left_behind(self) -> list[str]:
        return [path.name for path in self._temporary.iterdir()]


@pytest.fixture
def bench() -> Iterator[Bench]:
    # Short, because a Unix socket's path is, and open to the account that PostgreSQL runs as under root.
    temporary = Path(f"/tmp/bench-{os.getpid()}")
    temporary.mkdir(mode=0o755)
    try:
        yield Bench(temporary)
    finally:
        temporary.rmdir()  # it would complain about what is in it


def test_every_reader_drains_the_whole_backlog(bench: Bench) -> None:
    ended = bench.run("--events", "20000", "--rounds", "1", "--only", "limit,null,mock", "--json")
    assert ended.code == 0, ended.stderr
    result = json.loads(ended.stdout)  # one object and nothing else
    assert [list(run) for run in result["runs"]] == [KEYS, KEYS, KEYS]
    limit, null, mock = result["runs"]
    assert (limit["name"], null["name"], mock["name"]) == ("limit", "null", "mock")
    assert limit["ratio_to_limit"] == 1.0
    for run in result["runs"]:
        assert all(run[key] > 0 for key in KEYS[1:-1])
        assert run["round_events_per_second"] == [run["events_per_second"]]
        assert run["ratio_to_limit"] == run["events_per_second"] / limit["events_per_second"]
    assert limit["peak_rss_bytes"] < null["peak_rss_bytes"]
    assert result["not_run"] == []
    assert result["workload"] == {
        "events": 20000,
        "row_bytes": 235,
        "rows_per_transaction": 10,
        "rounds": 1,
        "pgoutput": "binary",
        "connection": "TCP",
    }
    assert bench.left_behind == []


SINKS = [
    pytest.param(sink, marks=[pytest.mark.slow] * (sink != "redis"))
    for sink in ("rabbitmq", "nats", "redis", "postgres", "file", "webhook")
]


@pytest.mark.parametrize("sink", SINKS)
def test_a_backlog_is_drained_into_a_broker_again_and_again(bench: Bench, sink: str) -> None:
    ended = bench.run(
        *("--events", "2000", "--keys", "100", "--rounds", "2", "--only", "null", "--sink", sink, "--json")
    )
    assert ended.code == 0, ended.stderr
    result = json.loads(ended.stdout)
    null, into = result["runs"]
    assert (null["name"], into["name"], result["workload"]["keys"]) == ("null", sink, 100)
    assert len(into["round_events_per_second"]) == 2
    assert min(into["round_events_per_second"]) <= into["events_per_second"] <= max(into["round_events_per_second"])
    assert bench.left_behind == []


def test_one_transaction_in_text_polled_too(bench: Bench) -> None:
    ended = bench.run(
        *("--events", "2500", "--rows-per-transaction", "all", "--row-bytes", "3000", "--rounds", "1"),
        *("--only", "limit,null,polling", "--text", "--socket"),
    )
    assert ended.code == 0, ended.stderr
    assert [name for name in ("limit", "null", "polling") if f"round 1/1  {name}" not in ended.stdout] == []
    assert "over a Unix socket" in ended.stdout
    assert ended.stderr == ""
    assert bench.left_behind == []


def test_on_the_users_server_everything_goes(bench: Bench, database: Database) -> None:
    before = database.execute(OBJECTS)
    ended = bench.run(
        "--events", "3000", "--rounds", "1", "--only", "limit,null,wal2json", "--dsn", database.dsn, "--json"
    )
    assert ended.code == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert {run["name"] for run in result["runs"]} | {each["name"] for each in result["not_run"]} == {
        "limit",
        "null",
        "wal2json",
    }
    assert database.dsn not in ended.stdout
    assert database.execute(OBJECTS) == before
    assert bench.left_behind == []


def test_ctrl_c_removes_what_was_made_on_the_users_server(bench: Bench, database: Database) -> None:
    before = database.execute(OBJECTS)
    process = bench.reading(database)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "")
    assert database.execute(OBJECTS) == before
    assert bench.left_behind == []


def test_what_a_killed_benchmark_left_goes_with_the_next_one(bench: Bench, database: Database) -> None:
    before = database.execute(OBJECTS)
    process = bench.reading(database)
    process.kill()
    process.communicate()
    assert ("slot walrelay_bench_backlog",) in database.execute(OBJECTS)
    ended = bench.run("--events", "1000", "--rounds", "1", "--only", "null", "--dsn", database.dsn)
    assert ended.code == 0, ended.stderr
    assert database.execute(OBJECTS) == before


def test_a_schema_of_that_name_which_is_the_users_own_is_not_touched(bench: Bench, database: Database) -> None:
    database.execute("CREATE SCHEMA walrelay_bench_backlog")
    ended = bench.run("--only", "null", "--dsn", database.dsn)
    assert ended.code == 1
    assert "that no benchmark made" in ended.stderr
    assert ("schema walrelay_bench_backlog",) in database.execute(OBJECTS)
