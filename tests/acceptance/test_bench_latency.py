"""`walrelay bench latency`: what it finds with real servers, and nothing left however it ends."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.acceptance.demo_process import DemoProcess
from tests.acceptance.test_demo import OBJECTS
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.lab.bench.child import TOPIC

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")

SHORT = ("--only", "walrelay,polling-100ms", "--rounds", "1", "--seconds", "3", "--idle", "3")
BRIEF = ("--rounds", "1", "--seconds", "1", "--idle", "0")
LONG = ("--only", "walrelay,polling-100ms", "--rounds", "100", "--seconds", "2")
PATIENCE = 180
_REHEARSED = 4100  # more messages than the rehearsal makes, which is not counted


class Bench(DemoProcess):
    """`kafka`: the tests' shared broker, which is there already."""

    def __init__(self, kafka: Kafka, *arguments: str, terminal: bool = False) -> None:
        servers = ("--bootstrap-servers", kafka.bootstrap_servers)
        super().__init__(*servers, *arguments, terminal=terminal, command=("bench", "latency"))

    def result(self) -> dict[str, Any]:
        assert self.ended(PATIENCE) == 0, self.stderr
        found: dict[str, Any] = json.loads(self.stdout)  # one object and nothing else
        return found


def test_every_event_is_measured_and_the_database_pays_less_than_for_polling(kafka: Kafka, tmp_path: Path) -> None:
    """By how much walrelay is sooner is asked of a machine with nothing else to do: see `.ci/run`."""
    with Bench(kafka, *SHORT, "--json", "--report", str(tmp_path / "report")) as bench:
        result = bench.result()
        assert bench.left_behind == []
    assert "round 1/1  walrelay" in bench.stderr  # progress, as lines where there is no terminal
    relay, poller = result["strategies"]
    assert [relay["name"], poller["name"]] == ["walrelay", "polling-100ms"]
    for strategy in (relay, poller):
        counts = {name: strategy[name] for name in ("events", "lost", "duplicates", "out_of_order")}
        assert counts == {"events": 600, "lost": 0, "duplicates": 0, "out_of_order": 0}
        assert 0 < strategy["p50_ms"] <= strategy["p90_ms"] <= strategy["p99_ms"] <= strategy["max_ms"]
        assert sum(bucket["events"] for bucket in strategy["histogram"]) == 600
    assert relay["dead_tuples_per_1000"] == 0
    assert poller["dead_tuples_per_1000"] == pytest.approx(1000)
    assert relay["statements_per_1000"] < poller["statements_per_1000"]
    assert relay["idle_per_minute"]["statements"] < poller["idle_per_minute"]["statements"]
    assert relay["worker_cpu_s_per_1000"] > 0
    assert relay["idle_per_minute"]["worker_cpu_s"] > 0
    assert relay["worker_rss_bytes"] > 2**20
    assert 0 < relay["first_event_s"] < 15
    assert relay["wal_bytes_per_1000"] < poller["wal_bytes_per_1000"]
    assert result["machine"]["cores"] >= 1
    assert result["versions"]["postgresql"].startswith("1")
    assert {path.suffix for path in (tmp_path / "report").iterdir()} >= {".html", ".svg", ".png"}


@pytest.mark.slow
def test_a_writer_that_produces_itself_and_exactly_once_are_measured_too(kafka: Kafka) -> None:
    """In a second round the position in Kafka is of the first, and the slot was moved on meanwhile."""
    short = ("--rounds", "2", "--seconds", "0.5", "--idle", "0")
    with Bench(kafka, "--only", "direct,exactly-once", *short, "--json") as bench:
        direct, exactly_once = bench.result()["strategies"]
    for strategy in (direct, exactly_once):
        counts = {name: strategy[name] for name in ("events", "lost", "duplicates", "out_of_order")}
        assert counts == {"events": 200, "lost": 0, "duplicates": 0, "out_of_order": 0}
        assert len(strategy["round_p50_ms"]) == 2
    assert exactly_once["worker_cpu_s_per_1000"] > 0
    assert (direct["worker_cpu_s_per_1000"], direct["worker_rss_bytes"], direct["first_event_s"]) == (None,) * 3


def test_the_users_own_database_is_as_before(database: Database, kafka: Kafka) -> None:
    before = database.execute(OBJECTS)
    with Bench(kafka, "--only", "polling-notify,walrelay", *BRIEF, "--json", "--dsn", database.dsn) as bench:
        names = [strategy["name"] for strategy in bench.result()["strategies"]]
        assert (names, bench.left_behind) == (["polling-notify", "walrelay"], [])
    assert database.execute(OBJECTS) == before
    wait_until(lambda: TOPIC not in kafka.admin.list_topics().topics, 10, "the topic to go")


@pytest.mark.slow
def test_a_ratio_that_is_not_reached_ends_with_1_and_says_by_how_much(kafka: Kafka) -> None:
    ratio = "walrelay/polling-100ms=0.000001"
    with Bench(kafka, *SHORT[:2], *BRIEF, "--max-ratio", ratio) as bench:
        assert bench.ended(PATIENCE) == 1
        assert "times that of polling-100ms; at most 1e-06 times were asked for" in bench.stderr
        assert "COMMIT to consumer" in bench.stdout
        assert bench.left_behind == []


@pytest.mark.slow
def test_a_message_that_comes_twice_is_seen(kafka: Kafka) -> None:
    with Bench(kafka, "--only", "polling-100ms", *SHORT[2:4], "--seconds", "8", "--idle", "0") as bench:
        bench.wait_for_child("walrelay.lab.bench.polling")
        message = kafka.consume(TOPIC, count=_REHEARSED + 1)[-1]
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce(TOPIC, message.value or b"", partition=message.partition)
        assert producer.flush(10) == 0
        assert bench.ended(PATIENCE) == 1
        assert "polling-100ms: 1 of 1,600 events repeated" in bench.stderr


@pytest.mark.parametrize("child", ["walrelay run", "walrelay.lab.bench.polling"])
def test_ctrl_c_while_it_measures_leaves_nothing(child: str, database: Database, kafka: Kafka) -> None:
    before = database.execute(OBJECTS)
    with Bench(kafka, *LONG, "--dsn", database.dsn) as bench:
        bench.wait_for_child(child)
        bench.interrupt()
        assert (bench.ended(PATIENCE), bench.stderr, bench.left_behind) == (130, "", [])
    assert database.execute(OBJECTS) == before


def test_what_a_killed_one_left_on_the_users_server_goes_with_the_next(database: Database, kafka: Kafka) -> None:
    before = database.execute(OBJECTS)
    with Bench(kafka, *LONG, "--dsn", database.dsn) as bench:
        bench.wait_for_child("walrelay run")
        bench.process.kill()
        wait_until(lambda: not bench.left_behind, 30, "processes and directories to go")
    assert ("slot walrelay_bench",) in database.execute(OBJECTS)
    with Bench(kafka, *SHORT[:2], *BRIEF, "--json", "--dsn", database.dsn) as bench:
        bench.result()
    assert set(database.execute(OBJECTS)) - set(before) <= {("schema walrelay",)}  # whose that is could not be known


def test_a_worker_that_dies_is_an_error_and_leaves_nothing(kafka: Kafka) -> None:
    with Bench(kafka, *LONG) as bench:
        worker = bench.wait_for_child("walrelay run")
        os.kill(worker, signal.SIGKILL)
        assert bench.ended(PATIENCE) == 1
        assert "walrelay ended" in bench.stderr
        assert bench.left_behind == []


def test_on_a_terminal_it_shows_where_it_is_and_the_cursor_comes_back(kafka: Kafka) -> None:
    with Bench(kafka, *LONG[:2], "--seconds", "600", terminal=True) as bench:
        bench.wait_for_words("/120,000 events")
        shown = bench.shown_within(2)
        bench.interrupt()
        assert bench.ended(PATIENCE) == 130
        assert 2 <= shown.count("/120,000") <= 12  # drawn about four times a second
        assert bench.stdout.rindex("\x1b[?25h") > bench.stdout.rindex("\x1b[?25l")
