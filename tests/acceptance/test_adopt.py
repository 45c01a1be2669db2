"""`walrelay init --adopt`: settings for a table that is there."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from tests.acceptance.adopting import SYSTEMS, headers, relayed
from tests.acceptance.conftest import Deploy
from tests.acceptance.relay_process import WALRELAY
from tests.servers.database import Database
from tests.servers.topics import Kafka
from walrelay.cli import main
from walrelay.config import parse, presets

Adopt = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def adopt(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Adopt:
    """`walrelay init --adopt TABLE` in this process: its exit code, and what it says on both streams."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database.dsn)

    def done(table: str) -> tuple[int, str, str]:
        code = 0
        try:
            main.main(["init", "--adopt", table])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capfd.readouterr()

    return done


@pytest.mark.parametrize("name", [name for name in presets.NAMES if name != "walrelay"])
def test_adopt_names_the_preset_of_a_table(database: Database, adopt: Adopt, name: presets.PresetName) -> None:
    database.execute((SYSTEMS / f"{name}.sql").read_text())
    table = presets.fragment(name)["outbox"]["table"]
    before = database.execute("SELECT oid::text FROM pg_class ORDER BY oid")
    _, printed, _ = adopt(table)
    assert database.execute("SELECT oid::text FROM pg_class ORDER BY oid") == before
    assert f"# {table} has all columns of the preset {name}." in printed
    assert parse(printed, "printed", {"DATABASE_URL": "host=db"}).outbox.preset == name


def test_adopt_proposes_roles_for_another_table_that_relay_its_rows(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    database.execute(
        'CREATE SCHEMA "Sales"; CREATE TABLE "Sales"."Out box" ("EventId" uuid, "on" text, "Body" json,'
        ' "StreamId" text, "OccurredAt" timestamp, "Twice" text GENERATED ALWAYS AS ("on") STORED)'
    )
    printed = adopted_settings(database, tmp_path, '"Sales"."Out box"')
    assert "suits no preset" in printed
    assert "# Not read: on." in printed
    outbox = yaml.safe_load(printed)["outbox"]
    deployment = deploy(database, kafka, topic, outbox=outbox)
    id_ = uuid4()
    with relayed(deployment) as connection:
        connection.execute('INSERT INTO "Sales"."Out box" VALUES (%s, %s, %s, %s, now())', [id_, "x", "[ 1]", "s-1"])
    (message,) = deployment.delivered()
    assert (message.key, message.value, headers(message)) == (b"s-1", b"[ 1]", {"id": str(id_)})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("nowhere", 'table "public"."nowhere" does not exist in database'),
        ("a_view", "is a view, which is not replicated"),
        ("empty", "no column of empty can be the id of an event"),
        ("Nowhere", "'Nowhere' has capitals: write nowhere"),
    ],
)
def test_adopt_says_why_it_cannot(database: Database, adopt: Adopt, table: str, said: str) -> None:
    database.execute("CREATE VIEW a_view AS SELECT 1 AS id; CREATE TABLE empty ()")
    code, _, error = adopt(table)
    assert code in (1, 2)
    assert said in error


def adopted_settings(database: Database, directory: Path, table: str) -> str:
    """What `init --adopt` prints, as an operator redirects it: the settings file is there, and empty."""
    with (directory / "walrelay.yaml").open("w") as empty:
        environment = {**os.environ, "DATABASE_URL": database.dsn}
        subprocess.run(
            [WALRELAY, "init", "--adopt", table], stdout=empty, cwd=directory, env=environment, timeout=60, check=True
        )
    return (directory / "walrelay.yaml").read_text()
