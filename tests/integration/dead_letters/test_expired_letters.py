"""Dead letters that are older than their topic keeps messages: a replay refuses them, as that of rows does."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.integration.dead_letters.test_dead_letters import letter, statuses
from tests.servers.database import Database
from tests.servers.topics import Kafka
from walrelay.cli import main
from walrelay.dead_letters import DeadLetterTableWriter

WEEK_MS = 7 * 86_400_000


@pytest.fixture
def kept_for_a_week(kafka: Kafka) -> Iterator[str]:
    name = kafka.create_topic(config={"retention.ms": str(WEEK_MS)})
    yield name
    kafka.delete_topics(name)


@pytest.fixture
def settings(database: Database, kafka: Kafka, kept_for_a_week: str, tmp_path: Path) -> Path:
    path = tmp_path / "walrelay.yaml"
    sink = {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers}
    written = {"source": {"dsn": database.dsn}, "sink": sink, "route": {"topic": kept_for_a_week}}
    path.write_text(json.dumps(written))
    return path


def run(settings: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["dlq", "replay", *arguments, "--config", str(settings)])


def test_a_letter_that_its_topic_would_delete_at_once_stays_open_until_that_is_accepted(
    database: Database, letters: DeadLetterTableWriter, settings: Path, kept_for_a_week: str
) -> None:
    then = datetime.now(UTC) - timedelta(days=300)
    for number, at in ((1, datetime.now(UTC)), (2, then)):
        found = letter(number, key=b"k%d" % number, topic=kept_for_a_week)
        assert found.record is not None
        letters.write(found._replace(record=found.record._replace(committed_at=int(at.timestamp() * 1e6))))
    for words in ([], ["--dry-run"]):
        refused = run(settings, *words)
        assert refused.exit_code == 1, refused.output
        oldest = f"{kept_for_a_week} deletes messages 7 days after their own time, and the oldest is of {then:%Y-%m-%d}"
        assert oldest in refused.stderr
        assert "`--even-expired` publishes all the same" in refused.stderr
        assert [status for _, status, _ in statuses(database)] == ["waiting", "waiting"], "before anything is published"
    assert run(settings, "--id", "e1").stdout.startswith("1 replayed")
    assert run(settings, "--even-expired").stdout.startswith("1 replayed")
    assert [status for _, status, _ in statuses(database)] == ["replayed", "replayed"]
