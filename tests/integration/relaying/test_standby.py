"""A relay that is led to a standby: it waits, because a primary may come there, and says why."""

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
