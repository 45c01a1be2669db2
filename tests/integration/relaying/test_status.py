"""What `walrelay status` says of a slot that keeps WAL, and who is to blame."""

from tests.integration.relaying.harness import Outbox
from tests.servers.postgres import PostgresServer
from walrelay import compose
from walrelay.source.catalog import Catalog
from walrelay.source.status import Status, status


def told(outbox: Outbox) -> Status:
    with Catalog(compose.dsn(outbox.settings)) as catalog:
        return status(catalog, outbox.settings.source.slot)


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
