"""Operators and functions of others, in a schema of the search_path, run with nobody's rights but their own."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.acceptance.traps import Traps
from tests.servers.database import Database, Postgres
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until
from walrelay.inbox import IdempotencyKeys, Identity, Inbox
from walrelay.outbox import Event, Outbox

MESSAGES = {"messages": {"prefix": "walrelay"}}


@pytest.fixture(autouse=True)
def mallory(postgres: Postgres) -> Iterator[str]:
    """A role that outlives the database, because what it owns there is too much to be dropped in one transaction."""
    name = f"mallory_{uuid4().hex[:12]}"
    postgres.execute(f"CREATE ROLE {name}")
    yield name
    postgres.execute(f"DROP ROLE {name}")


@pytest.fixture
def traps(mallory: str, database: Database) -> Traps:
    return Traps(database, mallory)


def test_the_traps_spring_where_a_search_path_leads_to_them(database: Database, traps: Traps) -> None:
    traps.plant()
    with pytest.raises(psycopg.errors.RaiseException, match=r"hijacked: oid with text"):
        database.execute("SELECT oid || ':'::text FROM pg_class LIMIT 1")
    with pytest.raises(psycopg.errors.RaiseException, match=r"hijacked: hashtextextended"):
        database.execute("SELECT hashtextextended('walrelay', 0)")
    assert traps.sprung() == 2


def test_no_command_calls_what_others_created_in_public(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, traps: Traps
) -> None:
    traps.plant()
    deployment = deploy(
        database,
        kafka,
        topic,
        outbox=MESSAGES,
        position={"keep": "table"},
        refusals={"policy": "dead_letter"},
        retention="1h",
    )
    untouched(deployment, traps, "init")
    relay = deployment.start()
    write(deployment, "1", '"' + "x" * 2_000_000 + '"', "2")  # the second is too large for the broker
    relay.wait_for("set aside")
    for command in (
        ["status"],
        ["doctor"],
        ["init", "--dry-run"],
        ["audit"],
        ["find", "--aggregate", "thing", "a", "--since", "1h"],
        ["replay", "--all", "--type", "Happened", "--aggregate", "thing:a", "--from", "1h", "--to", "2100-01-01"],
        ["replay", "--list"],
        ["dlq", "list", "--topic", "*", "--since", "2020-01-01", "--key", "a"],
        ["dlq", "show", "1"],
        ["dlq", "export"],
        ["dlq", "replay"],
        ["dlq", "discard", "--yes", "--reason", "a test"],
        ["cleanup", "--older-than", "1s"],
    ):
        untouched(deployment, traps, *command)
    relay.stop()
    write(deployment, "3")
    for command in (
        ["tail"],
        ["tail", "--format", "wal2json"],
        ["skip", "--position", "0/1:0", "--yes"],
        ["recover", "--replace", "--yes"],
        ["drop", "--yes"],
        ["init", "--backfill"],
    ):
        untouched(deployment, traps, *command)
    assert traps.sprung() == 0


@pytest.mark.chaos
def test_no_command_on_a_partitioned_outbox_does_either(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, traps: Traps
) -> None:
    traps.plant()
    deployment = deploy(database, kafka, topic)
    untouched(deployment, traps, "drop", "--yes")
    with database.connect() as session:
        session.execute("SET search_path = pg_catalog; DROP TABLE public.outbox")
    untouched(deployment, traps, "init", "--partitioned")
    relay = deployment.start()
    write(deployment, "1")
    untouched(deployment, traps, "cleanup", "--older-than", "1d")
    untouched(deployment, traps, "doctor")
    relay.stop()
    assert traps.sprung() == 0


def test_neither_do_the_functions_for_writers_nor_what_applications_import(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, traps: Traps
) -> None:
    traps.plant()
    deploy(database, kafka, topic, outbox=MESSAGES)
    with database.connect(autocommit=False) as session:
        session.execute("SET search_path = public, pg_catalog")  # where even an exact match is not PostgreSQL's own
        for function in ("emit", "emit_and_delete", "emit_message"):
            session.execute(f"SELECT walrelay.{function}('thing', 'a', 'Happened', '{{}}')".encode())
        for storage in ("row", "deleted_row", "message"):
            outbox = Outbox(storage=storage)
            event = Event(aggregate_type="thing", aggregate_id="a", type="Happened", payload={"n": 1})
            outbox.emit(session, event)
            outbox.emit_many(session, [replace(event, id=uuid4()) for _ in range(2)])
        inbox, keys = Inbox(by_position=True), IdempotencyKeys()
        inbox.create(session)
        keys.create(session)
        for message in ("1", Identity("2")):
            with inbox.receive(session, consumer="billing", message_id=message) as first:
                assert first
        for _ in range(2):
            with keys.claim(session, key="1", request="a") as command:
                if command.response is None:
                    command.respond(200)
        inbox.forget(session, older_than=timedelta(0))
        keys.forget(session)
    assert traps.sprung() == 0


def write(deployment: Deployment, *payloads: str) -> None:
    for payload in payloads:
        deployment.database.execute("SELECT walrelay.emit('thing', 'a', 'Happened', %s)", [payload])


def untouched(deployment: Deployment, traps: Traps, *command: str) -> None:
    """Runs the command; whatever it says of the situation, it may not have called a trap."""

    def ended() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(
            [WALRELAY, *command, "--config", deployment.config], capture_output=True, text=True, timeout=60
        )
        return None if "another clean-up" in done.stderr else done  # that is the relay's own

    done = wait_until(ended, 60, f"{command} to end")
    assert done is not None
    assert "hijacked" not in done.stdout + done.stderr, command
    assert traps.sprung() == 0, command
    assert "Traceback" not in done.stderr, done.stderr
    if command[0] != "skip" and command[:2] != ("dlq", "replay"):  # there is nothing to skip, and too large it stays
        assert done.returncode == 0, (command, done.stdout, done.stderr)
