"""Rows that no slot delivers are named by every command that reads the table, in the doctor's words."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.servers.database import Database
from tests.servers.topics import Kafka
from walrelay.cli import main

COMMANDS = [
    ["init"],
    ["init", "--backfill"],
    ["replay", "--all", "--dry-run"],
    ["recover", "--replace", "--all", "--dry-run"],
    ["audit", "--json"],
]
CHILD = "CREATE TABLE child () INHERITS (outbox); INSERT INTO child VALUES (DEFAULT, 'order', '1', 'Placed', '{}')"
TRIGGER = (
    "CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
    " CREATE TRIGGER away BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION away()"
)
RULE = "CREATE RULE away AS ON INSERT TO outbox DO INSTEAD NOTHING"


@pytest.mark.parametrize("sql", [CHILD, TRIGGER, RULE], ids=["child", "trigger", "rule"])
def test_commands_that_read_the_table_name_rows_that_are_no_events(
    database: Database, kafka: Kafka, topic: str, tmp_path: Path, sql: str
) -> None:
    path = tmp_path / "walrelay.yaml"
    source = {"dsn": database.dsn, "slot": database.name}
    sink = {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers}
    path.write_text(json.dumps({"source": source, "sink": sink, "route": {"topic": topic}}))

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, [*words, "-c", str(path)])

    assert "note: " not in run("init").stderr
    database.execute(sql)
    findings = json.loads(run("doctor", "--json").stdout)["findings"]
    (finding,) = [each for each in findings if each["subject"] == "table" and each["verdict"] == "problem"]
    for words in COMMANDS:
        result = run(*words)
        assert f"note: {finding['detail']}: {finding['fix']}\n" in result.stderr, (words, result.output)
        assert "note: " not in result.stdout
