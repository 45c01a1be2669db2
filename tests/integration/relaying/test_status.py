"""What `walrelay status` says of a slot that keeps WAL, and who is to blame."""

import os
import signal

from tests.integration.relaying.harness import Outbox
from tests.integration.relaying.ways import PGOUTPUT
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from walrelay.operations.figures import figures
from walrelay.operations.status import Status, status
from walrelay.postgres.catalog import Catalog, age


def told(outbox: Outbox) -> Status:
    with Catalog(outbox.wiring.dsn) as catalog:
        return status(catalog, outbox.settings.source.slot, outbox.wiring.publication, messages=False)


def test_wal_that_a_forgotten_transaction_holds_back_is_not_blamed_on_the_relay(
    own_server: PostgresServer, own_outbox: Outbox
) -> None:
    database = own_outbox.database
    with own_outbox.relay() as relay, database.connect(autocommit=False) as forgotten:
        relay.streams()
        forgotten.execute("SET application_name = 'forgetful'; CREATE TABLE unfinished (n int)")
        for _ in range(5):
            own_server.execute("SELECT pg_logical_emit_message(false, 'filler', 'x'), pg_switch_wal()")
        own_server.execute("CHECKPOINT")  # and a snapshot of what runs
        own_outbox.write(1)
        relay.confirms(own_outbox.end_of_wal())
        found = told(own_outbox)
        assert f"PID {forgotten.info.backend_pid} 'forgetful' idle in transaction" in found.held_by
        assert (found.lag_bytes or 0) < (found.retained_wal_bytes or 0)
        assert found.active
    assert told(own_outbox).active is False


def test_what_the_slot_costs_the_catalogs_is_told(own_outbox: Outbox) -> None:
    database = own_outbox.database
    before = told(own_outbox).catalog_xmin_age
    for _ in range(5):
        database.execute("SELECT pg_current_xact_id()")
    assert (told(own_outbox).catalog_xmin_age or 0) >= (before or 0) + 5


def test_lag_in_seconds_is_the_age_of_the_oldest_event_while_the_broker_takes_nothing(outbox: Outbox) -> None:
    with outbox.relay() as relay:
        relay.streams()
        outbox.broker.withhold()
        outbox.write("waits")
        ((committed,),) = outbox.database.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        relay.offers(1)
        relay.wait_until(lambda: (told(outbox).lag_seconds or 0) > 1, "the relay to say what waits")
        outbox.write("waits as well")
        found = told(outbox)
        ((now,),) = outbox.database.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        assert found.lag_seconds is not None
        assert 1 < found.lag_seconds <= now - committed + 0.1
        outbox.broker.release()
        relay.wait_until(lambda: told(outbox).lag_seconds == 0.0, "nothing to wait any more")


def test_lag_in_seconds_is_the_age_of_the_oldest_event_while_no_relay_runs(outbox: Outbox) -> None:
    server = outbox.database.server.execute("SHOW server_version_num")
    outbox.database.execute("CREATE TABLE other AS SELECT 1")
    nothing = told(outbox)
    outbox.write("waits")
    time_of_commit = "SELECT extract(epoch FROM clock_timestamp())::float8"
    ((committed,),) = outbox.database.execute(time_of_commit)
    found = told(outbox)
    ((now,),) = outbox.database.execute(time_of_commit)
    assert found.next.startswith("walrelay doctor")
    if outbox.way in PGOUTPUT and int(server[0][0]) >= 150000:
        assert nothing.lag_seconds == 0.0
        assert found.lag_seconds is not None
        assert 0 < found.lag_seconds <= now - committed + 1


def test_an_age_is_not_negative_after_the_servers_clock_was_set_back(database: Database) -> None:
    with Catalog(database.dsn) as catalog:
        assert catalog.value("SELECT " + age("now() + interval '1 hour'")) == 0
        assert catalog.value("SELECT " + age("now() - interval '1 hour'")) >= 3600


def test_an_age_is_unknown_while_the_walsender_has_not_read_to_the_end(outbox: Outbox) -> None:
    with outbox.relay() as relay:
        relay.streams()
        walsender = told(outbox).active_pid
        assert walsender is not None
        os.kill(walsender, signal.SIGSTOP)  # as busy as with a transaction that it cannot decode
        try:
            outbox.database.execute(
                "SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 20)"
            )
            outbox.write("waits")
            found = told(outbox)
            with Catalog(outbox.wiring.dsn) as catalog:
                shown = figures(catalog, [outbox.wiring])[outbox.wiring.slot]
        finally:
            os.kill(walsender, signal.SIGCONT)
        assert (found.lag_seconds, shown.lag_seconds) == (None, None)
        assert found.next.startswith("walrelay doctor")
        relay.wait_until(lambda: told(outbox).lag_seconds == 0.0, "the walsender to read to the end")
