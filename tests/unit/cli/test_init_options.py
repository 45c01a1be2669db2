"""The options of `walrelay init`."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic

from walrelay.cli.init import init
from walrelay.errors import SettingsError

RANGES = {each.name: each.type for each in init.params if isinstance(each.type, click.IntRange)}


def test_numbers_for_new_topics_are_those_that_the_client_library_takes() -> None:
    """It takes no others, and says so with a ValueError."""
    client = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    partitions, replicas = (int(RANGES[name].max or 0) for name in ("partitions", "replication_factor"))
    client.create_topics([NewTopic("t", partitions, replicas), NewTopic("u", 1, 1)])
    for beyond in (NewTopic("t", partitions + 1, 1), NewTopic("t", 1, replicas + 1)):
        with pytest.raises(ValueError, match="out of expected range"):
            client.create_topics([beyond])


@pytest.mark.parametrize("option", [["--exact"], ["--partitions", "3"], ["--replication-factor", "1"]])
def test_what_is_for_topics_is_refused_where_none_is_named(option: list[str]) -> None:
    result = CliRunner().invoke(init, option)
    assert result.exit_code == 2
    assert f"{option[0]} has no effect without --topics" in result.output


@pytest.mark.parametrize("option", [["--dry-run"], ["--topics", "a"], ["--timeout", "3"]])
def test_what_makes_something_is_refused_beside_adopt(option: list[str]) -> None:
    result = CliRunner().invoke(init, ["--adopt", "outbox", *option])
    assert result.exit_code == 2
    assert f"--adopt changes nothing: {option[0]} has no effect with it" in result.output


def test_adopt_needs_a_database(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        init, ["--adopt", "outbox", "-c", str(tmp_path / "walrelay.yaml")], env={"DATABASE_URL": None}
    )
    assert isinstance(result.exception, SettingsError)
    assert "no such file, and DATABASE_URL is not set" in str(result.exception)
    result = CliRunner().invoke(init, ["--adopt", "outbox"], env={"DATABASE_URL": "mysql://root:secret@db/shop"})
    assert isinstance(result.exception, SettingsError)
    assert "DATABASE_URL is not a libpq connection string" in str(result.exception)
    assert "secret" not in str(result.exception)
