"""Logical messages as events: whoever may write them publishes, so nobody may unless the settings say so."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from tests.acceptance.conftest import Deploy
from tests.acceptance.relay_process import WALRELAY
from tests.conftest import PostgresMaker
from tests.servers.database import Database, Postgres
from tests.servers.topics import Kafka
from walrelay.outbox import Event, Outbox

FORGED = json.dumps({"id": "1", "aggregate_type": "payment", "aggregate_id": "42", "payload": {"amount": 1_000_000}})
EVENT = Event(aggregate_type="order", aggregate_id="1", type="Placed", payload={"n": 1})


class Roles:
    """Roles of the test's own; they may log in, and what else they may the test says."""

    def __init__(self, server: Postgres) -> None:
        self._server, self._made = server, list[str]()

    def make(self, attributes: str = "") -> str:
        name = f"role_{uuid4().hex[:12]}"
        self._server.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}' {attributes}")
        self._made.append(name)
        return name

    def drop(self) -> None:
        """What they own or were granted went with their database."""
        for name in self._made:
            self._server.execute(f"DROP ROLE {name}")


@pytest.fixture(autouse=True)
def roles(postgres: Postgres) -> Iterator[Roles]:
    """Before the database, whose end takes their grants."""
    made = Roles(postgres)
    yield made
    made.drop()


def as_role(database: Database, role: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(make_conninfo(database.dsn, user=role, password=role), autocommit=True)


def test_by_default_what_a_reader_writes_as_a_logical_message_is_no_event(
    deploy: Deploy, roles: Roles, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic)
    relay = deployment.start()
    with as_role(database, roles.make()) as reader:
        reader.execute("SET default_transaction_read_only = on")
        for content in (FORGED, "x"):
            reader.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s::text)", [content])
            reader.execute("SELECT pg_logical_emit_message(false, 'walrelay', %s::text)", [content])
    (id_,) = deployment.write("1")
    deployment.catch_up()
    assert deployment.delivered_ids() == [id_]
    relay.stop()


@pytest.mark.parametrize("major", [15, 18])
def test_init_leaves_the_right_to_write_them_to_the_writers_that_the_settings_name(
    private_postgres: PostgresMaker, tmp_path: Path, major: int
) -> None:
    server = private_postgres(major=major)
    database = server.create_database()
    for role in ("shop", "reader"):
        server.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
    config = settings(tmp_path, database.dsn, writers=["shop"])
    assert walrelay("init", config=config).returncode == 0
    database.execute("GRANT USAGE ON SCHEMA walrelay TO shop, reader")
    forms = ["true, 'walrelay', %s::text", "false, 'walrelay', %s::text", "true, 'walrelay', %s::text::bytea"]
    forms += ["true, 'walrelay', %s::text, true", "true, 'walrelay', %s::text::bytea, true"] if major >= 17 else []
    with as_role(database, "reader") as reader:
        for form in forms:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(f"SELECT pg_logical_emit_message({form})".encode(), [FORGED])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("SELECT walrelay.emit_message('order', '1', 'Placed')")
    with as_role(database, "shop") as shop:
        shop.execute("SELECT walrelay.emit_message('order', '1', 'Placed')")
        with shop.transaction():
            Outbox(storage="message").emit(shop, EVENT)
    assert "created" not in walrelay("init", config=config).stdout
    lines = walrelay("tail", config=config).stdout.splitlines()
    assert [json.loads(line)["aggregate_type"] for line in lines] == ["order", "order"]


def test_a_function_whose_messages_are_no_events_is_told_at_the_start(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic, outbox={"messages": {"prefix": "walrelay"}})
    deployment.write_settings(outbox={})
    relay = deployment.start()
    relay.wait_for("noticed", containing="what it writes is not published")
    relay.stop()


def test_init_by_a_role_that_may_not_take_the_right_away_says_so_and_goes_no_further(
    roles: Roles, database: Database, tmp_path: Path
) -> None:
    owner = roles.make("REPLICATION")
    database.execute(f"GRANT CREATE ON DATABASE {database.name} TO {owner}; GRANT CREATE ON SCHEMA public TO {owner}")
    dsn = make_conninfo(database.dsn, user=owner, password=owner)
    config = settings(tmp_path, dsn, slot=database.name)
    done = walrelay("init", config=config)
    assert done.returncode == 1
    assert "PUBLIC still may call pg_logical_emit_message" in done.stderr
    assert "`walrelay init --dry-run` prints the SQL" in done.stderr
    assert database.name not in database.server.slots()
    accepted = settings(tmp_path, dsn, slot=database.name, writers=["public"])
    assert walrelay("init", config=accepted).returncode == 0
    assert "every role that can connect may write them" in walrelay("doctor", config=accepted).stdout


def test_the_doctor_finds_that_everybody_may_write_them_and_has_the_sql_to_paste(
    roles: Roles, database: Database, tmp_path: Path
) -> None:
    shop = roles.make()
    config = settings(tmp_path, database.dsn, slot=database.name, writers=[shop])
    assert walrelay("init", config=config).returncode == 0
    assert finding(config)["verdict"] == "ok"
    database.execute("GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, bytea) TO PUBLIC")
    database.execute(f"REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM {shop}")
    told = finding(config)
    assert told["verdict"] == "warning"
    assert "every role that can connect may write them" in told["detail"]
    database.execute(told["fix"])
    assert finding(config)["verdict"] == "ok"
    assert finding(settings(tmp_path, database.dsn, slot=database.name, prefix=None))["verdict"] == "warning"
    database.execute("DROP FUNCTION walrelay.emit_message")


def settings(
    directory: Path,
    dsn: str,
    *,
    slot: str = "walrelay",
    prefix: str | None = "walrelay",
    writers: list[str] | None = None,
) -> Path:
    path = directory / "walrelay.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "source": {"dsn": dsn, "slot": slot},
                "outbox": {"messages": {"prefix": prefix, "writers": writers or []}},
                "sink": {"kind": "stdout"},
            }
        )
    )
    return path


def walrelay(*command: str, config: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([WALRELAY, *command, "-c", config], capture_output=True, text=True, timeout=60)


def finding(config: Path) -> dict[str, str]:
    """What the doctor says of logical messages."""
    told = json.loads(walrelay("doctor", "--json", config=config).stdout)
    (found,) = [each for each in told["findings"] if each["subject"] == "logical messages"]
    return dict(found)
