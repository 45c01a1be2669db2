"""PG* variables of whatever environment the relay is started in: overruled where they would mislead, or named."""

import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.relaying.harness import Outbox
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.parametrize("way", ["text"], indirect=True)

MISLEADING = {
    "PGHOSTADDR": "127.0.0.9",
    "PGHOST": "nowhere.invalid",
    "PGPORT": "1",
    "PGDATABASE": "nowhere",
    "PGUSER": "nobody",
    "PGTARGETSESSIONATTRS": "standby",
    "PGAPPNAME": "somebody",
    "PGCLIENTENCODING": "LATIN2",
    "PGDATESTYLE": "SQL, DMY",
    "PGTZ": "America/New_York",
    "PGOPTIONS": "-c client_min_messages=error -c statement_timeout=100 -c lock_timeout=100 -c search_path=nowhere"
    " -c default_transaction_read_only=on -c bytea_output=escape -c idle_session_timeout=1000",
}

IN_THE_WAY = {
    "PGSSLMODE": "verify-full",
    "PGSERVICE": "nowhere",
    "PGTZ": "nowhere/nowhere",
    "PGDATESTYLE": "none",
    "PGOPTIONS": "-c nonsense=1",
    "PGREQUIREAUTH": "scram-sha-256",
}


@pytest.mark.parametrize("name", MISLEADING)
def test_a_variable_that_points_elsewhere_leads_nowhere(
    outbox: Outbox, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = outbox.database.dsn.replace("127.0.0.1", "localhost")  # libpq would look up neither for PGHOSTADDR
    monkeypatch.setenv(name, MISLEADING[name])
    outbox = outbox.under(source={"dsn": before})
    with outbox.relay() as relay:
        relay.streams()
        sender = "SELECT application_name FROM pg_stat_replication WHERE pid = %s"
        monkeypatch.delenv(name)  # the rest are the test's own connections
        assert outbox.database.execute(sender, [outbox.slot("active_pid")]) == [("walrelay",)]
        outbox.write(1)
        assert outbox.values(relay) == [b"1"]


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_a_variable_that_keeps_the_relay_from_the_server_is_named(
    outbox: Outbox, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, IN_THE_WAY[name])
    watcher = outbox.watcher
    with outbox.relay() as relay:
        wait_until(lambda: watcher.retries or relay.ended, 60, "the relay to be refused, or to end for good")
        monkeypatch.delenv(name)
        said = watcher.retries[0] if watcher.retries else str(relay.failure())
    assert f"(the environment sets {name})" in said
    assert IN_THE_WAY[name] not in said.partition("(the environment")[2]


@pytest.mark.parametrize("value", ["database", "true"])
def test_replication_in_the_dsn_changes_nothing(outbox: Outbox, value: str) -> None:
    copied = outbox.under(source={"dsn": make_conninfo(outbox.database.dsn, replication=value)})
    with copied.relay() as relay:
        copied.write(1)
        assert copied.values(relay) == [b"1"]
