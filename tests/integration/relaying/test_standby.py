"""Standbys: a relay that is led to one waits for a primary; dead letters wait for those that would take over."""

from psycopg.conninfo import make_conninfo

from tests.conftest import PostgresMaker, StandbyMaker
from tests.integration.relaying.harness import Outbox


def test_a_relay_that_is_led_to_a_standby_waits_for_a_primary_there(
    private_postgres: PostgresMaker, standby_of: StandbyMaker
) -> None:
    primary = private_postgres()
    database = primary.create_database()
    outbox = Outbox(database, "text")
    outbox.init()
    standby = standby_of(primary)
    led_astray = outbox.under(source={"dsn": make_conninfo(database.dsn, port=standby.port)})
    with led_astray.relay() as relay:
        relay.wait_until(lambda: led_astray.watcher.retries, "the relay to see where it is")
    assert "the server is a standby; a relay needs the primary" in led_astray.watcher.retries[0]
    assert "target_session_attrs" in led_astray.watcher.retries[0]


def test_what_was_kept_before_is_passed_over_once_the_standbys_have_it(private_postgres: PostgresMaker) -> None:
    """By a run that was killed, or by `walrelay skip`: the stream does not begin before."""
    primary = private_postgres(major=18)
    outbox = Outbox(primary.create_database(), "text", source={"failover": True}, refusals={"policy": "dead_letter"})
    outbox.init()
    primary.execute("SELECT pg_create_physical_replication_slot('standby_1', true)")
    outbox.write(1)
    primary.configure(synchronized_standby_slots="standby_1")
    outbox.database.execute(
        "INSERT INTO walrelay.dead_letters (slot_name, commit_lsn, ordinal, number, record_id, sink, status, error,"
        " reason, attempts) VALUES (%s, pg_current_wal_lsn(), 0, 0, 'e', 'kafka', 'waiting', 'poison', 'why', 1)",
        [outbox.settings.source.slot],
    )
    with outbox.relay() as relay:
        relay.wait_until(lambda: outbox.watcher.retries, "the relay to wait for the standby")
        assert "standby slot standby_1: its standby does not have the dead letters" in outbox.watcher.retries[0]
        assert outbox.watcher.starts == []
        primary.configure(synchronized_standby_slots="")
        relay.streams()
        assert outbox.values(relay) == [b"1"]
