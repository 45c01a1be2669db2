"""Each command beside each other: either they exclude each other, and the message names the holder, or both work."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from tests.acceptance.backfill_process import BackfillProcess
from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.servers.waiting import wait_until
from walrelay.cli import main
from walrelay.operations import replay
from walrelay.postgres.locks import lock_key
from walrelay.table.rows import BATCH_ROWS

TAKES_THE_SLOT = ["recover --replace --all --yes", "init --backfill", "drop --yes"]
SHARES = ["init", "cleanup --older-than 1h", "replay --all", "dlq replay", "audit --from 1h"]


def refused(deployment: Deployment, command: str) -> str:
    """What the command says on stderr when it does nothing."""
    done = subprocess.run(
        [WALRELAY, *command.split(), "--config", deployment.config], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, f"{command} was not refused: {done.stdout}"
    assert "Traceback" not in done.stderr
    return done.stderr


@contextmanager
def held(deployment: Deployment, lock: str) -> Iterator[int]:
    """The PID of a session that has the advisory lock."""
    with deployment.database.connect() as connection:
        connection.execute(f"SELECT pg_advisory_lock({lock})".encode())
        yield connection.info.backend_pid


def test_whatever_takes_the_slot_away_is_refused_beside_a_relay(deployment: Deployment) -> None:
    relay = deployment.start()
    slot = deployment.slot
    for command in TAKES_THE_SLOT:
        said = refused(deployment, command)
        assert f"PID {slot.pid}" in said or "is there already" in said, command
    deployment.write_rows(10)
    deployment.catch_up()
    assert relay.events("retrying") == []


def test_whatever_takes_the_slot_away_is_refused_beside_a_relay_that_leads_and_does_not_stream_yet(
    deployment: Deployment,
) -> None:
    commands, lock = ["recover --replace --all --yes", "drop --yes"], str(lock_key(deployment.slot_name))
    _refused_while_held(deployment, commands, lock, "Stop every relay")
    deployment.command("drop", "--yes")
    _refused_while_held(deployment, ["init --backfill"], lock, "Stop every relay")


def test_a_slot_is_made_or_dropped_by_one_process_at_a_time_also_of_an_earlier_version(deployment: Deployment) -> None:
    lock = f"hashtextextended('walrelay backfill of {deployment.slot_name}', 0)"
    _refused_while_held(deployment, ["recover --replace --all --yes", "drop --yes", "init"], lock, "Wait for it")
    deployment.command("drop", "--yes")
    _refused_while_held(deployment, ["init --backfill"], lock, "Wait for it")


def _refused_while_held(deployment: Deployment, commands: list[str], lock: str, hint: str) -> None:
    slots = "SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()"
    before = deployment.database.execute(slots)
    with held(deployment, lock) as pid:
        for command in commands:
            said = refused(deployment, command)
            assert f"PID {pid}" in said, command
            assert hint in said, command
    assert deployment.database.execute(slots) == before


def test_what_shares_with_a_relay_works_beside_it(deployment: Deployment) -> None:
    relay = deployment.start()
    deployment.write_rows(50)
    deployment.catch_up()
    for command in SHARES:
        deployment.command(*command.split())
    deployment.write_rows(50)
    deployment.catch_up()
    assert relay.events("retrying") == []
    assert len(set(deployment.delivered_ids())) == 100


def test_beside_a_recovery_a_relay_stands_by_and_what_would_take_its_rows_or_its_slot_is_refused(
    deployment: Deployment,
) -> None:
    deployment.write_rows(10 * BATCH_ROWS)
    recovery = BackfillProcess(deployment, "recover", "--replace", "--all", "--yes")
    recovery.reaches(BATCH_ROWS)
    os.kill(recovery.pid, signal.SIGSTOP)
    try:
        relay = deployment.launch()
        relay.wait_for("standing by")
        ((pid,),) = deployment.database.execute(
            "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted"
            " AND objsubid = 1 AND datname = current_database() GROUP BY pid"
        )
        for command in [*TAKES_THE_SLOT, "init", "cleanup --older-than 1s"]:
            assert f"PID {pid}" in refused(deployment, command), command
        assert f" rows of {10 * BATCH_ROWS}" in deployment.command("audit", "--from", "1h", exit_code=1)
        deployment.command("dlq", "replay")
        deployment.command("replay", "--all")
        assert relay.running
    finally:
        os.kill(recovery.pid, signal.SIGCONT)
    assert recovery.wait() == 0, recovery.output()
    relay.wait_for("streaming")
    deployment.write_rows(10)
    deployment.catch_up()
    assert len(set(deployment.delivered_ids())) == 10 * BATCH_ROWS + 10


def test_a_replay_publishes_what_a_clean_up_takes_meanwhile(deployment: Deployment) -> None:
    """It reads rows as they were when it began to."""
    deployment.start()
    deployment.write_rows(200)
    deployment.catch_up()
    replay = BackfillProcess(deployment, "replay", "--all", "--rate", "100")
    replay.waits_for("to publish")
    wait_until(lambda: len(deployment.delivered_ids()) > 200, 30, "the replay to publish")
    deployment.command("cleanup", "--older-than", "0.01s", "--pace", "1")
    assert deployment.database.execute("SELECT count(*) FROM outbox") == [(0,)]
    assert replay.wait() == 0, replay.output()
    ids = deployment.delivered_ids()
    assert sorted(ids) == sorted(2 * list(set(ids)))


def test_a_replay_tells_how_many_rows_went_before_it_read_them(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment.start()
    deployment.write_rows(100)
    deployment.catch_up()
    run_replay = replay.run_replay

    def late(*arguments: Any, **options: Any) -> Any:
        deployment.command("cleanup", "--older-than", "0.01s", "--pace", "1")
        return run_replay(*arguments, **options)

    monkeypatch.setattr("walrelay.operations.replay.run_replay", late)
    done = CliRunner().invoke(main, ["replay", "--all", "--config", str(deployment.config)])
    assert "a clean-up deleted 100 rows before they were replayed" in done.output


def test_a_drop_that_may_not_remove_all_removes_nothing_and_names_each_right(deployment: Deployment) -> None:
    role, database = f"r_{deployment.database.name}", deployment.database
    database.execute(f"CREATE ROLE {role} LOGIN REPLICATION")
    try:
        deployment.write_settings(source={"dsn": psycopg.conninfo.make_conninfo(database.dsn, user=role)})
        said = refused(deployment, "drop --yes")
        assert "nothing was changed" in said
        assert "GRANT USAGE ON SCHEMA walrelay" in said
        assert "drop publication walrelay" in said
        assert deployment.slot.confirmed
        assert database.execute("SELECT count(*) FROM walrelay.slots") == [(1,)]
        hint = next(line for line in said.splitlines() if line.startswith("hint: "))
        database.execute(hint.removeprefix("hint: "))  # is enough
        assert "dropped" in deployment.command("drop", "--yes")
        assert database.execute("SELECT 1 FROM pg_publication") == []
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_drop_that_is_interrupted_by_an_error_removes_nothing(deployment: Deployment) -> None:
    deployment.database.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no row may go'; END$$;"
        " CREATE TRIGGER refuse BEFORE DELETE ON walrelay.slots FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    assert "no row may go" in refused(deployment, "drop --yes")
    assert deployment.database.execute("SELECT count(*) FROM pg_publication") == [(1,)]
    assert deployment.slot.confirmed


@pytest.mark.parametrize("command", ["recover --replace --all --yes", "init"])
def test_a_slot_is_not_touched_by_a_role_that_may_not_keep_its_record(deployment: Deployment, command: str) -> None:
    role, database = f"r_{deployment.database.name}", deployment.database
    if command == "init":
        deployment.command("drop", "--yes")
        deployment.database.execute("CREATE PUBLICATION walrelay FOR TABLE outbox WITH (publish = 'insert')")
    slots = "SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()"
    before = database.execute(slots)
    database.execute(
        f"CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA public, walrelay TO {role};"
        f" GRANT SELECT ON ALL TABLES IN SCHEMA public, walrelay TO {role}"
    )
    try:
        deployment.write_settings(source={"dsn": psycopg.conninfo.make_conninfo(database.dsn, user=role)})
        said = refused(deployment, command)
        assert "GRANT" in said
        assert "walrelay.slots" in said
        assert database.execute(slots) == before
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
