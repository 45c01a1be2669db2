"""What is asked of PostgreSQL for metrics and health, where it is slow, silent, locked or lacks a right."""

import socket
from collections.abc import Iterator
from time import monotonic

import pytest

from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.observe.numbers import RelayNumbers
from walrelay.operations.figures import SlotFigures, figures
from walrelay.postgres.catalog import Catalog
from walrelay.telemetry.asking import DatabaseAsker
from walrelay.telemetry.instruments import RelayView
from walrelay.telemetry.views import Views

OVER = 60.0  # seconds: nothing here takes as long


@pytest.fixture
def outbox(database: Database) -> Outbox:
    made = Outbox(database, "binary")
    made.init()
    return made


@pytest.fixture
def silent() -> Iterator[str]:
    """A DSN of somebody who accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield f"host=127.0.0.1 port={server.getsockname()[1]} dbname=x user=x"


def asked(outbox: Outbox) -> SlotFigures:
    with Catalog(outbox.wiring.dsn) as catalog:
        catalog.rows("SELECT set_config('lock_timeout', '200ms', false)")
        return figures(catalog, [outbox.wiring])[outbox.wiring.slot]


def test_a_table_that_an_alter_table_holds_lacks_its_own_numbers_only(outbox: Outbox) -> None:
    assert asked(outbox).outbox_bytes is not None
    with outbox.database.connect(autocommit=False) as connection:
        connection.execute(f"LOCK {outbox.wiring.table} IN ACCESS EXCLUSIVE MODE".encode())
        held = asked(outbox)
    assert (held.outbox_bytes, held.wal_status) == (None, "reserved")


def test_an_unfinished_backfill_and_unfinished_replays_have_their_progress(outbox: Outbox) -> None:
    assert asked(outbox)[-3:] == (None, 0, None)
    outbox.database.execute("UPDATE walrelay.slots SET backfill = '{\"published\": 7}'")
    outbox.database.execute(
        "INSERT INTO walrelay.replays (slot_name, name, system_identifier, progress)"
        " SELECT slot_name, name, '1', '{\"published\": 5}' FROM walrelay.slots, unnest('{a,b}'::text[]) AS name"
    )
    assert asked(outbox)[-3:] == (7, 2, 10)


def test_a_database_that_does_not_answer_holds_up_nobody_for_long(outbox: Outbox, silent: str) -> None:
    views = Views()
    views.add("good", outbox.wiring, RelayNumbers(outbox.wiring.slot))
    views.add("silent", outbox.wiring._replace(dsn=silent), RelayNumbers("s"))

    def seen() -> dict[str, RelayView]:
        return {each.name: each for each in views(1.0)}

    try:
        began = monotonic()
        assert not seen()["silent"].postgres_up
        assert monotonic() - began < 8, "it is waited for, for a second; a busy machine takes longer"
        wait_until(lambda: seen()["good"].figures is not None, OVER, "the other database to answer")
        assert not seen()["silent"].postgres_up
    finally:
        began = monotonic()
        views.close()
    assert monotonic() - began < 8, "the end waits for no server"


def test_a_server_that_is_back_is_asked_again(outbox: Outbox) -> None:
    asker = DatabaseAsker(outbox.wiring.dsn)
    try:
        for _ in range(2):
            asker._ended_at = float("-inf")  # an answer of five seconds ago
            asker.ask([outbox.wiring])
            asker.await_answer(monotonic() + OVER)
            assert asker.found is not None
            outbox.database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    finally:
        asker.close()
