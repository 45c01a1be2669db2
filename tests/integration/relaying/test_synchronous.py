"""A relay must not become a synchronous standby: every commit of the cluster would wait for the broker."""

import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.integration.relaying.harness import Outbox
from tests.servers.database import Postgres
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerProcess
from tests.servers.waiting import wait_until


def states(server: Postgres) -> dict[str, str]:
    """What the server takes its standbys for, by their names."""
    rows = server.execute("SELECT application_name, sync_state FROM pg_stat_replication")
    return {str(name): str(state) for name, state in rows}


@pytest.fixture
def another(own_server: PostgresServer, tmp_path: Path) -> Iterator[str]:
    """The name of a standby that keeps up, as far as the server can tell."""
    dsn = f"host=127.0.0.1 port={own_server.port} user=postgres application_name=another"
    receive = own_server.bin("pg_receivewal")
    command: list[str | Path] = [receive, "--synchronous", "--directory", tmp_path, "--dbname", dsn]
    process = ServerProcess(command, log=tmp_path / "log", cwd=tmp_path, last_signal=signal.SIGTERM)
    wait_until(lambda: "another" in states(own_server), 10, "a standby")
    yield "another"
    process.signal(signal.SIGTERM)
    process.wait(10)


def test_a_relay_that_commits_would_wait_for_is_refused(own_server: PostgresServer, own_outbox: Outbox) -> None:
    own_server.configure(synchronous_standby_names="*")
    try:
        for _ in range(5):  # what the server says of a walsender changes while it starts
            error = own_outbox.failure()
            assert "synchronous standby" in str(error)
            assert "ALTER SYSTEM SET synchronous_standby_names = " in error.hint
    finally:
        own_server.configure(synchronous_standby_names=None)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("ANY 1 (another, walrelay)", "commits would wait for the broker"),
        ("FIRST 1 (another, walrelay)", "as soon as another one is away"),
        ("2 (*)", "commits would wait for the broker"),
    ],
)
def test_a_relay_among_other_standbys_is_refused(
    own_server: PostgresServer, own_outbox: Outbox, another: str, names: str, said: str
) -> None:
    own_server.configure(synchronous_standby_names=names, synchronous_commit="local")
    try:
        wait_until(lambda: states(own_server)[another] in ("sync", "quorum"), 10, "the other one to count")
        error = str(own_outbox.failure())
        assert said in error
    finally:
        own_server.configure(synchronous_standby_names=None, synchronous_commit=None)


def test_a_relay_that_is_made_a_synchronous_standby_while_it_runs_lets_go(
    own_server: PostgresServer, own_outbox: Outbox
) -> None:
    outbox = own_outbox.under(source={"publication_check_interval": 0.1})
    with outbox.relay() as relay:
        outbox.write(1)
        assert outbox.values(relay) == [b"1"]
        outbox.broker.withhold()
        outbox.write(2)
        own_server.configure(synchronous_standby_names="ANY 1 (*)")
        commit = Thread(target=outbox.database.execute, args=["CREATE TABLE held_up (n int)"])
        commit.start()
        try:
            assert "synchronous standby" in str(relay.failure())
        finally:  # a walsender that is gone is waited for as well
            own_server.configure(synchronous_standby_names=None)
            commit.join(10)
    assert not commit.is_alive()
