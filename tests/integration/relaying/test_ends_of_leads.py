"""Where a lead ended, by its own report in walrelay.relays: known for certain, or not at all."""

from collections.abc import Iterator

import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database
from walrelay.control.table import RelayReport, write_report
from walrelay.lsn import LSN
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.slot_moves import reached, take_row


@pytest.fixture
def catalog(database: Database) -> Iterator[Catalog]:
    """Of a database whose slot is recorded, and was read by lead "a", which took its row."""
    Outbox(database, "text").init()
    with Catalog(database.dsn) as found:
        report(found, "a", "starting", None)
        take_row(found, slot(found), "a")
        yield found


def slot(catalog: Catalog) -> str:
    found: str = catalog.value("SELECT slot_name FROM walrelay.slots")
    return found


def report(catalog: Catalog, lead: str, state: str, position: int | None, *, leads: bool = True) -> None:
    where = None if position is None else LSN(position)
    whose = slot(catalog), "orders", f"host:{lead}", lead, leads, True
    write_report(catalog, RelayReport(*whose, state, where, None, "", 0, 0, None))


def ended(catalog: Catalog) -> int | None:
    return reached(catalog, slot(catalog), stopped=True)


def row(catalog: Catalog) -> tuple[object, ...]:
    return catalog.rows("SELECT state, instance, position FROM walrelay.relays")[0]


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_a_lead_that_ended_says_where(catalog: Catalog, state: str) -> None:
    report(catalog, "a", "streaming", 8)
    assert ended(catalog) is None
    report(catalog, "a", state, 16, leads=False)
    assert ended(catalog) == 16


def test_a_report_that_comes_after_the_next_lead_began_changes_nothing(catalog: Catalog) -> None:
    report(catalog, "a", "streaming", 8)
    take_row(catalog, slot(catalog), "b")
    report(catalog, "b", "streaming", 16)
    before = row(catalog)
    report(catalog, "a", "stopped", 8, leads=False)
    assert (ended(catalog), row(catalog)) == (None, before)


def test_nothing_is_known_once_the_next_lead_has_taken_the_row(catalog: Catalog) -> None:
    report(catalog, "a", "stopped", 16)
    take_row(catalog, slot(catalog), "b")
    assert ended(catalog) is None


def test_leads_that_ended_before_they_confirmed_anything_leave_the_end_as_it_is(catalog: Catalog) -> None:
    """As where the slot is gone, until it is made by hand."""
    report(catalog, "a", "failed", 16)
    for lead in ("b", "c"):
        take_row(catalog, slot(catalog), lead, reads=False)
        report(catalog, lead, "starting", None)
        report(catalog, lead, "failed", None, leads=False)
        assert row(catalog)[:2] == ("failed", f"host:{lead}")
    report(catalog, "a", "stopped", 8, leads=False)
    assert ended(catalog) == 16


def test_a_lead_that_could_not_take_the_row_leaves_nothing_that_is_known(catalog: Catalog) -> None:
    report(catalog, "a", "stopped", 16)
    report(catalog, "b", "streaming", 24)
    assert ended(catalog) is None
    report(catalog, "a", "stopped", 16, leads=False)
    report(catalog, "b", "stopped", 32)
    assert ended(catalog) is None


def test_an_earlier_version_that_relayed_in_between_leaves_nothing_that_is_known(catalog: Catalog) -> None:
    report(catalog, "a", "stopped", 16)
    catalog.run("UPDATE walrelay.relays SET state = 'stopped', position = '0/20', updated_at = now()")
    assert ended(catalog) is None


def test_a_table_of_an_earlier_version_says_nothing_of_ends_and_gets_every_report(catalog: Catalog) -> None:
    catalog.run("ALTER TABLE walrelay.relays DROP COLUMN lead, DROP COLUMN ended_at, DROP COLUMN error_count")
    take_row(catalog, slot(catalog), "b")
    report(catalog, "b", "stopped", 24)
    assert ended(catalog) is None
    assert row(catalog)[:2] == ("stopped", "host:b")
    catalog.run("DELETE FROM walrelay.relays")
    report(catalog, "b", "streaming", 32)
    assert row(catalog)[:2] == ("streaming", "host:b")


def test_the_first_report_of_a_relay_has_the_row_for_its_lead(catalog: Catalog) -> None:
    catalog.run("DELETE FROM walrelay.relays")
    take_row(catalog, slot(catalog), "b")
    report(catalog, "b", "streaming", 8)
    assert ended(catalog) is None
    report(catalog, "b", "stopped", 16)
    assert ended(catalog) == 16


def test_a_gap_that_the_relay_may_not_note_stops_it_and_stays_known(database: Database) -> None:
    """Under the grants of deploy/grants.sql the relay only reads walrelay.slots."""
    outbox = Outbox(database, "text")
    outbox.init()
    role = f"relay_{database.name}"
    database.execute(f"CREATE ROLE {role} LOGIN REPLICATION")
    try:
        for grant in (
            "USAGE ON SCHEMA walrelay, public",
            "SELECT ON ALL TABLES IN SCHEMA walrelay, public",
            "INSERT, UPDATE ON walrelay.relays, walrelay.activity, walrelay.dead_letters",
        ):
            database.execute(f"GRANT {grant} TO {role}")
        relay = outbox.under(source={"dsn": make_conninfo(database.dsn, user=role)})
        with Catalog(database.dsn) as catalog:
            name = slot(catalog)
            report(catalog, "a", "starting", None)
            take_row(catalog, name, "a")
            report(catalog, "a", "stopped", 16)
            for _ in range(2):
                failure = relay.failure()
                assert "its relay had confirmed only 0/10 when it stopped" in str(failure)
                assert "walrelay recover --replace" in failure.hint
                assert f'GRANT UPDATE (published_from) ON walrelay.slots TO "{role}"' in failure.hint
                assert ended(catalog) == 16
    finally:
        database.execute(f"DROP OWNED BY {role}")
        database.execute(f"DROP ROLE {role}")
