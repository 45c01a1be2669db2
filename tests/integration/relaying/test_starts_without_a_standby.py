"""A relay starts though the synchronous standby is away."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import PostgresMaker
from tests.integration.relaying.harness import Outbox
from tests.servers.postgres import PostgresServer
from walrelay.control.pausing import LeaderPause
from walrelay.control.relay import RelayControl
from walrelay.observe import Observers
from walrelay.postgres.catalog import Catalog


@contextmanager
def no_standby(server: PostgresServer) -> Iterator[None]:
    server.configure(synchronous_standby_names="nobody")
    try:
        yield
    finally:
        server.configure(synchronous_standby_names="")


def test_a_pause_whose_time_has_passed_holds_no_lead_up(private_postgres: PostgresMaker) -> None:
    server = private_postgres()
    outbox = Outbox(server.create_database(), "text")
    outbox.init()
    control = RelayControl("orders", outbox.wiring, lambda _: None)
    with Catalog(outbox.database.dsn, patience=5) as catalog:
        catalog.run(
            "INSERT INTO walrelay.relays (slot_name, name, paused, paused_until)"
            " VALUES (%s, 'orders', true, now() - interval '1 s')",
            control.slot,
        )
        with no_standby(server), LeaderPause(control, Observers()).while_leading(catalog):
            assert control.leads
            assert not control.pause


def test_a_gap_before_the_slot_is_noted(private_postgres: PostgresMaker) -> None:
    server = private_postgres()
    outbox = Outbox(server.create_database(), "text")
    outbox.init()
    outbox.database.execute(
        "INSERT INTO walrelay.relays (slot_name, name, position, lead, updated_at, ended_at)"
        " VALUES (%s, 'orders', '0/10', 'a', now(), now())",
        [outbox.wiring.slot],
    )
    with no_standby(server), outbox.relay() as relay:
        relay.confirms(outbox.end_of_wal())
    assert outbox.database.execute("SELECT published_from FROM walrelay.slots") == [(None,)]
