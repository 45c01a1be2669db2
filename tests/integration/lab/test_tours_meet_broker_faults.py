"""Whatever Kafka answers to the demo and the benchmarks: a documented exit code, a message, and nothing left behind."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.integration.cli.test_commands_meet_broker_faults import KINDS
from tests.servers.choose import Machine
from tests.servers.database import Database
from tests.servers.faulty_kafka import GARBLED, BrokerFault, FaultyKafka, faulty_broker
from tests.servers.kafka import KafkaServer
from walrelay.cli import ending

WALRELAY = Path(sysconfig.get_path("scripts")) / "walrelay"
DEMO = "demo --events 50 --rate 0"
LATENCY = "bench latency --only walrelay,exactly-once,polling-100ms --rate 50 --seconds 0.5 --rounds 1 --idle 0"
THROUGHPUT = "bench throughput --events 5000 --rounds 1 --only kafka,exactly-once"


class Brokers(NamedTuple):
    kafka: KafkaServer
    faulty: FaultyKafka


@pytest.fixture(scope="module")
def brokers(machine: Machine) -> Iterator[Brokers]:
    with faulty_broker(machine) as (kafka, faulty):
        yield Brokers(kafka, faulty)


def tour(words: str, brokers: Brokers, database: Database, fault: BrokerFault) -> None:
    """Runs it on these servers; AssertionError unless it ends as documented and leaves no slot."""
    brokers.faulty.arm(fault)
    servers = ["--dsn", database.dsn, "--bootstrap-servers", brokers.kafka.bootstrap_servers]
    done = subprocess.run([WALRELAY, *words.split(), *servers], capture_output=True, text=True, timeout=250)
    brokers.faulty.heal()
    told = f"{words} with {fault}: {done}, after the requests {brokers.faulty.apis[:100]}"
    assert done.returncode in (ending.DONE, ending.FAILED), told
    assert "Traceback" not in done.stdout + done.stderr, told
    assert "this is a bug in walrelay" not in done.stderr, told
    assert done.returncode == ending.DONE or done.stderr, told
    assert database.execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == [], (
        told
    )


@pytest.mark.parametrize("fault", [BrokerFault(4, 6), BrokerFault(3, GARBLED, lasting=True)])
def test_the_demo_ends_as_documented_whatever_the_broker_answers(
    brokers: Brokers, database: Database, fault: BrokerFault
) -> None:
    tour(DEMO, brokers, database, fault)
    assert brokers.faulty.calls >= fault.call


def test_a_process_of_a_benchmark_that_ends_says_so_in_a_line(tmp_path: Path) -> None:
    """As the consumer does for which a fetch is refused; its parent tells what it says."""
    receive = [sys.executable, "-m", "walrelay.lab.bench.ends", "consumer", "topic", str(tmp_path / "journal"), "{}"]
    environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    ended = subprocess.run(receive, capture_output=True, text=True, env=environment, timeout=100)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("words", [DEMO, LATENCY, THROUGHPUT])
def test_tours_end_as_documented_whatever_the_broker_answers_at_random_requests(
    words: str, brokers: Brokers, database: Database
) -> None:
    tour(words, brokers, database, BrokerFault(0))
    total, random = brokers.faulty.calls, Random(words)
    for _ in range(24):
        fault = BrokerFault(random.randint(1, total), random.choice(KINDS), lasting=random.random() < 0.3)
        tour(words, brokers, database, fault)
