"""The roles of docs/security.md, made by the SQL that is there: each does its own work, and is refused the others'."""

import json
import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.acceptance.relay_process import WALRELAY, RelayProcess
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.inbox import IdempotencyKeys, Inbox
from walrelay.outbox import Event, Outbox

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
BLOCKS = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)

# What is refused: to each role what its neighbours may, and what nobody may.
FORBIDDEN = {
    "shop": (
        "SELECT * FROM public.outbox",
        "DELETE FROM public.outbox",
        "SELECT * FROM walrelay.slots",
        "SELECT * FROM walrelay.dead_letters",
        "SELECT walrelay.emit_and_delete('order', '1', 'Placed')",
        "SELECT * FROM public.inbox",
        "SELECT pg_logical_slot_peek_binary_changes('walrelay', NULL, NULL)",
        "SELECT pg_drop_replication_slot('walrelay')",
        "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')",
    ),
    "billing": (
        "INSERT INTO public.outbox (aggregate_type, aggregate_id, type) VALUES ('order', '1', 'Placed')",
        "SELECT walrelay.emit('order', '1', 'Placed')",
        "SELECT * FROM public.outbox",
        "SELECT * FROM walrelay.dead_letters",
        "SELECT pg_logical_slot_peek_binary_changes('walrelay', NULL, NULL)",
    ),
    "relay": (
        "SELECT * FROM public.outbox",
        "INSERT INTO public.outbox (aggregate_type, aggregate_id, type) VALUES ('order', '1', 'Placed')",
        "SELECT walrelay.emit('order', '1', 'Placed')",
        "DELETE FROM public.outbox",
        "UPDATE walrelay.slots SET created_lsn = '0/0'",
        "DELETE FROM walrelay.dead_letters",
        "ALTER PUBLICATION walrelay SET (publish = 'update')",
        "SELECT * FROM public.inbox",
    ),
    "oncall": (
        "INSERT INTO public.outbox (aggregate_type, aggregate_id, type) VALUES ('order', '1', 'Placed')",
        "DELETE FROM public.outbox",
        "DELETE FROM walrelay.dead_letters",
        "UPDATE walrelay.slots SET created_lsn = '0/0'",
        "UPDATE walrelay.positions SET lsn = '0/0'",
        "ALTER PUBLICATION walrelay SET (publish = 'update')",
    ),
    "cleaner": (
        "INSERT INTO public.outbox (aggregate_type, aggregate_id, type) VALUES ('order', '1', 'Placed')",
        "SELECT * FROM walrelay.dead_letters",
        "UPDATE walrelay.slots SET published_from = 0",
        "SELECT pg_drop_replication_slot('walrelay')",
    ),
    "reader": (
        "SELECT * FROM public.outbox",
        "INSERT INTO public.outbox (aggregate_type, aggregate_id, type) VALUES ('order', '1', 'Placed')",
        "SELECT walrelay.emit('order', '1', 'Placed')",
        "SELECT * FROM walrelay.slots",
        "SELECT * FROM walrelay.dead_letters",
        "SELECT pg_logical_slot_peek_binary_changes('walrelay', NULL, NULL)",
    ),
    "outbox_owner": (
        "SELECT pg_read_file('pg_hba.conf')",
        "ALTER ROLE relay SUPERUSER",
        "CREATE ROLE another",
        "SELECT * FROM public.secrets",
    ),
}


def test_the_page_shows_the_sql_that_is_deployed() -> None:
    for name in ("roles.sql", "grants.sql"):
        assert (ROOT / "deploy" / name).read_text() in BLOCKS


def test_the_compose_file_runs_walrelay_as_these_roles() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    dsns = {name: service.get("environment", {}).get("DATABASE_URL", "") for name, service in services.items()}
    users = {name: conninfo_to_dict(dsn)["user"] for name, dsn in dsns.items() if dsn}
    assert users == {"init": "outbox_owner", "walrelay": "relay", "admin": "oncall"}
    assert services["grants"]["environment"]["PGUSER"] == "outbox_owner"
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert {"./roles.sql", "./grants.sql"} <= set(mounted)
    assert all((ROOT / "deploy" / name).exists() for name in mounted)


class Deployed(NamedTuple):
    """A database with these roles, and a settings file for each of them."""

    database: Database
    kafka: Kafka
    topic: str
    directory: Path

    def dsn(self, role: str) -> str:
        return make_conninfo(self.database.dsn, user=role, password=role)

    def config(self, role: str) -> Path:
        path = self.directory / f"{role}.yaml"
        settings = {
            "source": {"dsn": self.dsn(role)},
            "route": {"topic": self.topic},
            "sink": {"kind": "kafka", "bootstrap_servers": self.kafka.bootstrap_servers},
            "refusals": {"policy": "dead_letter"},
            "position": {"keep": "table"},
            "log": {"format": "json"},
        }
        path.write_text(yaml.safe_dump(settings))
        return path

    def command(self, role: str, *arguments: str) -> str:
        command = [str(WALRELAY), *arguments, "-c", str(self.config(role))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (role, arguments, done.stdout, done.stderr)
        return done.stdout

    def connect(self, role: str, **options: Any) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(self.dsn(role), **options)

    def run(self, role: str, sql: str) -> None:
        with self.connect(role, autocommit=True) as session:
            session.execute(sql.encode())


@pytest.fixture(params=[pytest.param(15, marks=pytest.mark.chaos), 18])
def deployed(
    request: pytest.FixtureRequest, private_postgres: PostgresMaker, kafka: Kafka, topic: str, tmp_path: Path
) -> Deployed:
    server = private_postgres(major=request.param)
    made = Deployed(server.create_database("shop"), kafka, topic, tmp_path)
    before, grants, consumers = BLOCKS
    made.database.execute(before)
    made.database.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'; CREATE TABLE public.secrets ()")
    made.command("outbox_owner", "init")
    made.run("outbox_owner", f"{Inbox().sql()};\n{IdempotencyKeys().sql()}")
    made.run("outbox_owner", grants)
    made.run("outbox_owner", consumers)
    return made


def test_each_role_does_its_whole_work_and_is_refused_its_neighbours(deployed: Deployed) -> None:
    relay = RelayProcess(deployed.config("relay"))
    try:
        relay.wait_for("streaming")
        the_shop_writes(deployed)
        relay.wait_for("set aside")
        wait_until(lambda: len(deployed.kafka.read_all(deployed.topic)) == 3, 20, "three events")
        assert complaints(deployed, "relay") == []
        the_consumer_receives(deployed)
        status = json.loads(deployed.command("oncall", "status", "--json"))
        assert status["dead_letters"] == 1
        deployed.command("oncall", "audit")
        found = json.loads(deployed.command("oncall", "find", "--since", "1h", "--json"))
        assert sorted(each["state"] for each in found["rows"]) == ["dead_letter", *["published"] * 3]
        assert found["notices"] == []
        assert "published 3 rows again" in deployed.command("oncall", "replay", "--aggregate", "order")
        deployed.command("oncall", "route", "test", "--rows", "5")
        deployed.command("oncall", "dlq", "list")
        deployed.command("oncall", "dlq", "discard", "--yes", "--reason", "a test")
        deployed.command("cleaner", "cleanup", "--older-than", "1s")
        assert deployed.database.execute("SELECT count(*) FROM outbox") == [(0,)]
    finally:
        relay.stop()
    deployed.command("oncall", "tail")
    deployed.command("oncall", "route", "test", "--slot", "5")
    deployed.command("outbox_owner", "recover", "--replace", "--yes")
    assert [(role, sql) for role in FORBIDDEN for sql in FORBIDDEN[role] if not is_refused(deployed, role, sql)] == []
    deployed.command("outbox_owner", "drop", "--yes")
    assert deployed.database.execute("SELECT rolname FROM pg_roles WHERE rolsuper") == [("postgres",)]


def the_shop_writes(deployed: Deployed) -> None:
    """By function, by statement and by COPY; one event is too large for the broker."""
    event = Event(aggregate_type="order", aggregate_id="1", type="Placed", payload={"n": 1})
    with deployed.connect("shop") as session:
        session.execute("SELECT walrelay.emit('order', '1', 'Placed', '1')")
        Outbox().emit(session, event)
    with deployed.connect("shop") as session:
        Outbox().emit_many(session, [Event(aggregate_type="order", aggregate_id="1", type="Placed", payload={"n": 2})])
        session.execute(
            "INSERT INTO public.outbox (aggregate_type, aggregate_id, type, payload)"
            " VALUES ('large', '1', 'Placed', to_jsonb(repeat('x', 2000000)))"
        )
    with deployed.connect("shop") as session, IdempotencyKeys().claim(session, key="1", request="a") as command:
        command.respond(200)


def the_consumer_receives(deployed: Deployed) -> None:
    for by_position in (False, True):
        inbox = Inbox(by_position=by_position)
        with deployed.connect("billing") as session, inbox.receive(session, consumer="b", message_id="1") as first:
            assert first is not by_position
    with deployed.connect("billing") as session:
        inbox.forget(session, older_than=timedelta(0))


def complaints(deployed: Deployed, role: str) -> list[dict[str, str]]:
    found = json.loads(deployed.command(role, "doctor", "--json"))["findings"]
    return [each for each in found if each["subject"] in ("privileges", "role") and each["verdict"] != "ok"]


def is_refused(deployed: Deployed, role: str, sql: str) -> bool:
    with deployed.connect(role, autocommit=True) as session:
        try:
            session.execute(sql.encode())
        except psycopg.errors.InsufficientPrivilege:
            return True
    return False
