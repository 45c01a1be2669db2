"""`walrelay init --topics`: the topics of the first events, made with the objects in the database."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.acceptance.relay_process import WALRELAY
from tests.servers.database import Database
from tests.servers.topics import Kafka


@pytest.fixture
def prefix(kafka: Kafka) -> Iterator[str]:
    """Of topics that end with the test."""
    name = f"test-{uuid4().hex[:12]}"
    yield name
    kafka.delete_topics(*(topic for topic in kafka.admin.list_topics(timeout=10).topics if topic.startswith(name)))


class Settings:
    def __init__(self, file: Path, database: Database, template: str, sink: dict[str, Any]) -> None:
        self._file = file
        source = {"dsn": database.dsn, "slot": f"walrelay_{database.name}"}
        file.write_text(yaml.safe_dump({"source": source, "route": {"topic": template}, "sink": sink}))

    def init(self, *options: str, command: str = "init") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [WALRELAY, command, "-c", self._file, *options], capture_output=True, text=True, timeout=60
        )


def kafka_at(bootstrap_servers: str) -> dict[str, Any]:
    return {"kind": "kafka", "bootstrap_servers": bootstrap_servers}


def made(run: subprocess.CompletedProcess[str]) -> list[str]:
    assert run.returncode == 0, run.stderr
    return [line for line in run.stdout.splitlines() if "topic " in line]


def partitions(kafka: Kafka, topic: str) -> int:
    return len(kafka.admin.list_topics(topic, timeout=10).topics[topic].partitions)


def test_init_makes_the_topics_of_aggregate_types_and_says_which_were_there(
    database: Database, kafka: Kafka, prefix: str, tmp_path: Path
) -> None:
    settings = Settings(tmp_path / "w.yaml", database, prefix + ".{aggregate_type}", kafka_at(kafka.bootstrap_servers))
    planned = settings.init("--topics", "order", "--dry-run").stdout.splitlines()[-1]
    assert planned == f"-- topic {prefix}.order, at the broker"

    assert made(settings.init("--topics", "order", "--partitions", "2")) == [f"created   topic {prefix}.order"]
    both = settings.init("--topics", f"{prefix}.order, invoice,order", "--replication-factor", "1")
    assert made(both) == [f"present   topic {prefix}.order", f"created   topic {prefix}.invoice"]
    assert made(settings.init("--topics", f"{prefix}-own", "--exact")) == [f"created   topic {prefix}-own"]
    assert [partitions(kafka, f"{prefix}{end}") for end in (".order", ".invoice", "-own")] == [2, 12, 12]


def test_what_the_doctor_says_of_a_missing_topic_makes_it(
    database: Database, kafka: Kafka, prefix: str, tmp_path: Path
) -> None:
    settings = Settings(tmp_path / "w.yaml", database, f"{prefix}.orders", kafka_at(kafka.bootstrap_servers))
    settings.init()
    said = settings.init(command="doctor").stdout
    options = f"--topics {prefix}.orders -c {tmp_path / 'w.yaml'}"
    fix = f"fix: walrelay init {options}\n         # or kafka-topics.sh --bootstrap-server "
    assert fix + kafka.bootstrap_servers in said, "for the file that the doctor was given"
    pasted = subprocess.run([WALRELAY, "init", *options.split()], capture_output=True, text=True, timeout=60)
    assert made(pasted) == [f"created   topic {prefix}.orders"]
    healthy = settings.init(command="doctor")
    assert healthy.returncode == 0, healthy.stdout


def test_topics_that_cannot_be_made_are_an_error_with_a_hint(
    database: Database, kafka: Kafka, prefix: str, tmp_path: Path
) -> None:
    settings = Settings(tmp_path / "w.yaml", database, prefix + ".{aggregate_type}", kafka_at(kafka.bootstrap_servers))
    many = settings.init("--topics", "order", "--replication-factor", "9")
    assert many.returncode == 1
    assert f"error: topic {prefix}.order could not be made: " in many.stderr
    assert "hint: A topic has at most as many replicas as there are brokers: --replication-factor." in many.stderr
    assert settings.init("--topics", "order", "--partitions", "100001").returncode == 2
    odd = settings.init("--topics", "or der")
    assert "hint: Topic names have letters, digits, '.', '_' and '-' and at most 249 of them." in odd.stderr
    assert f"{prefix}.order" not in kafka.admin.list_topics(timeout=10).topics

    lines = Settings(tmp_path / "s.yaml", database, "events", {"kind": "stdout"}).init("--topics", "order")
    assert (lines.returncode, lines.stdout) == (1, "")
    assert lines.stderr == "error: a sink of kind 'stdout' has no topics to make\nhint: Leave --topics out.\n"


def test_a_topic_that_collides_with_another_is_named_by_every_command(
    database: Database, kafka: Kafka, prefix: str, tmp_path: Path
) -> None:
    broker = kafka_at(kafka.bootstrap_servers) | {"create_topics": True}
    settings = Settings(tmp_path / "w.yaml", database, f"{prefix}.item", broker)
    made(settings.init("--topics", f"{prefix}_item", "--exact"))
    twin = settings.init("--topics", f"{prefix}.item", "--exact")
    assert twin.returncode == 1
    assert "hint: Kafka takes '.' and '_' in the names of topics for the same" in twin.stderr
    said = settings.init(command="doctor").stdout
    assert f"does not exist, and Kafka makes none beside {prefix}_item" in said


def test_a_broker_that_is_away_does_not_keep_init_from_the_database(database: Database, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "w.yaml", database, "events", kafka_at("127.0.0.1:1"))
    run = settings.init("--topics", "events")
    assert run.returncode == 1
    assert "created   slot" in run.stdout
    assert "error: no topic was made: Kafka cannot be reached at 127.0.0.1:1: " in run.stderr
