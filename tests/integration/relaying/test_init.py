"""`walrelay init`: makes what is missing, and never something that would hide a loss."""

import pytest

from tests.conftest import PostgresMaker
from tests.integration.relaying.harness import Outbox
from tests.integration.relaying.ways import WAL2JSON
from tests.servers.database import Database
from walrelay.errors import Fatal
from walrelay.operations import setup
from walrelay.postgres.catalog import Catalog


def plan(outbox: Outbox) -> list[setup.SetupStep]:
    with Catalog(outbox.wiring.dsn) as catalog:
        return setup.plan(catalog, outbox.wiring)


def test_init_run_again_changes_nothing(outbox: Outbox) -> None:
    outbox.write(1)
    before = outbox.confirmed
    assert set(outbox.init().values()) == {"present"}
    assert outbox.confirmed == before
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]


def test_the_sql_of_a_dry_run_makes_all_that_is_missing(database: Database, way: str) -> None:
    outbox = Outbox(database, way)
    steps = plan(outbox)
    assert {step.kind for step in steps if step.present} <= {
        "rights to write logical messages"
    }  # an emptied database keeps them
    assert database.execute("SELECT to_regclass('outbox'), to_regnamespace('walrelay')") == [(None, None)]
    assert database.server.slots(database.name) == set()
    for step in steps:
        database.execute(step.sql)
    assert all(step.present for step in plan(outbox))
    outbox.write(1)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]


def test_a_slot_that_is_gone_is_not_made_again(outbox: Outbox) -> None:
    slot = outbox.settings.source.slot
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    with pytest.raises(Fatal, match="is gone") as caught:
        outbox.init()
    assert "walrelay recover" in caught.value.hint
    assert slot not in outbox.database.server.slots()


def test_an_open_transaction_that_is_waited_for_is_named_and_init_goes_on_later(database: Database, way: str) -> None:
    outbox = Outbox(database, way)
    with database.connect(autocommit=False, application_name="the writer") as writer:
        writer.execute("CREATE TABLE open (n int)")
        with pytest.raises(Fatal, match=f"PID {writer.info.backend_pid} 'the writer' idle in transaction") as caught:
            outbox.init(patience=0.5)
        assert "pg_terminate_backend" in caught.value.hint
    assert outbox.init()[f"slot {outbox.settings.source.slot}"] == "created"


def test_the_emit_function_writes_an_event(outbox: Outbox) -> None:
    outbox.database.execute("SELECT walrelay.emit('order', 'o-1', 'placed', '{\"n\": 1}', topic => 'elsewhere')")
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    assert (message.topic, message.key, message.value) == ("elsewhere", b"o-1", b'{"n": 1}')


@pytest.mark.parametrize("way", WAL2JSON)
def test_a_plugin_that_the_server_does_not_allow_comes_with_its_cure(private_postgres: PostgresMaker, way: str) -> None:
    server = private_postgres()
    if not server.execute("SELECT 1 FROM pg_settings WHERE name = 'output_plugin_libraries'"):
        pytest.skip("this PostgreSQL allows every output plugin")
    outbox = Outbox(server.create_database(), way)
    allowed = ("pgoutput", "test_decoding", "wal2json")
    server.configure(output_plugin_libraries=allowed[:2])
    with pytest.raises(Fatal) as refused_to_make:
        outbox.init()
    server.configure(output_plugin_libraries=allowed)
    outbox.init()
    server.configure(output_plugin_libraries=allowed[:2])
    for error in (refused_to_make.value, outbox.failure()):
        assert "ALTER SYSTEM SET output_plugin_libraries = pgoutput, test_decoding, wal2json;" in error.hint
    server.configure(output_plugin_libraries=allowed)
    outbox.write(1)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]


def test_an_event_trigger_that_forbids_a_step_is_named_and_rights_are_not(database: Database) -> None:
    database.execute(
        "CREATE FUNCTION public.by_migrations() RETURNS event_trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'only by migrations'; END $$"
    )
    database.execute("CREATE EVENT TRIGGER by_migrations ON ddl_command_start EXECUTE FUNCTION public.by_migrations()")
    try:
        with pytest.raises(Fatal) as refused:
            Outbox(database, "text").init()
    finally:
        database.execute("DROP EVENT TRIGGER by_migrations")
    assert "only by migrations" in str(refused.value)
    assert "by_migrations() line 1" in str(refused.value)
    assert "rights" not in refused.value.hint
