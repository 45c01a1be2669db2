"""`walrelay cleanup` of an outbox that was altered: what may not have been published stays until `init` takes note."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.integration.relaying.cleaning import AT_ONCE, clean, left, publish
from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox, header
from tests.servers.database import Database
from walrelay.errors import Fatal
from walrelay.operations import setup
from walrelay.operations.cleanup.cleanup import Cleanup
from walrelay.postgres.catalog import Catalog
from walrelay.table import days

pytestmark = pytest.mark.parametrize("way", ["text"])  # what is published is asked in one way only

REWRITES = [
    "ALTER TABLE outbox ALTER COLUMN aggregate_id TYPE varchar(200)",
    "ALTER TABLE outbox ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY",
    "VACUUM FULL outbox",
]


@pytest.fixture
def outbox(make_outbox: OutboxMaker) -> Outbox:
    """Its relay tells at once how far an idle server got."""
    return make_outbox(**AT_ONCE)


@pytest.fixture
def with_old_rows(database: Database, way: str) -> Outbox:
    """Three rows were in the table when `walrelay init` made the slot, and three were published since."""
    fresh = Outbox(database, way, **AT_ONCE)
    fresh.init()
    database.execute("SELECT pg_drop_replication_slot(%s)", [fresh.settings.source.slot])
    database.execute("DELETE FROM walrelay.slots")
    fresh.write(*range(3))
    fresh.init()
    publish(fresh, *range(3, 6))
    return fresh


@pytest.fixture
def partitioned(database: Database, way: str) -> Outbox:
    """`walrelay init --partitioned` has run."""
    fresh = Outbox(database, way, **AT_ONCE)
    init_partitioned(fresh)
    return fresh


def init_partitioned(outbox: Outbox) -> dict[str, str]:
    wiring = outbox.wiring
    with Catalog(outbox.wiring.dsn) as catalog:
        steps = setup.plan(catalog, wiring, partitioned=True)
        return {step.what: str(outcome) for step, outcome in setup.apply(catalog, wiring, steps, patience=10)}


def fill(database: Database, table: str, payload: str, day: str = "now()") -> None:
    """A row that is written into a table of that name, be it the outbox or not."""
    database.execute(
        f"INSERT INTO {table} (aggregate_type, aggregate_id, type, payload, created_at)"
        f" VALUES ('order', '1', 't', '{json.dumps(payload)}', {day})"
    )


OF_NO_DAY = "'1999-01-01 12:00+00'"


def published(outbox: Outbox) -> set[Any]:
    return {json.loads(message.value) for message in outbox.broker.durable if message.value}


@pytest.mark.parametrize("gap", ["publish = 'update'", "publish = 'update, delete'"])
def test_rows_of_a_time_without_inserts_in_the_publication_stay(outbox: Outbox, gap: str) -> None:
    publish(outbox, "before")
    outbox.database.execute(f"ALTER PUBLICATION walrelay SET ({gap})")
    outbox.write("lost")
    outbox.database.execute("ALTER PUBLICATION walrelay SET (publish = 'insert')")
    publish(outbox, "after")
    with outbox.relay():
        with pytest.raises(Fatal, match="was altered") as caught:
            clean(outbox)
        assert "walrelay init" in caught.value.hint
        assert left(outbox) == ["after", "before", "lost"]
        assert "last looked" in outbox.init()["the outbox"]
        outbox.write("later")
        assert "lost" not in published(outbox)
        tally = clean(outbox)
    assert (tally.rows, tally.unknown) == (1, 3)
    assert left(outbox) == ["after", "before", "lost"]


def test_rows_of_a_time_in_which_partitions_were_published_under_their_own_names_stay(partitioned: Outbox) -> None:
    publish(partitioned, "before")
    partitioned.database.execute("ALTER PUBLICATION walrelay SET (publish_via_partition_root = false)")
    partitioned.write("lost")
    partitioned.database.execute("ALTER PUBLICATION walrelay SET (publish_via_partition_root = true)")
    publish(partitioned, "after")
    with partitioned.relay(), pytest.raises(Fatal, match="was altered"):
        clean(partitioned)
    assert left(partitioned) == ["after", "before", "lost"]


def test_rows_of_a_time_in_which_the_schema_was_not_in_the_publication_stay(database: Database, way: str) -> None:
    if database.server.major < 15:
        pytest.skip("schemas in publications came with PostgreSQL 15")
    outbox = Outbox(database, way, **AT_ONCE)
    database.execute("CREATE PUBLICATION walrelay FOR TABLES IN SCHEMA public WITH (publish = 'insert')")
    outbox.init()
    publish(outbox, "before")
    database.execute("ALTER PUBLICATION walrelay DROP TABLES IN SCHEMA public")
    outbox.write("lost")
    database.execute("ALTER PUBLICATION walrelay ADD TABLES IN SCHEMA public")
    publish(outbox, "after")
    with outbox.relay(), pytest.raises(Fatal, match="was altered"):
        clean(outbox)
    assert left(outbox) == ["after", "before", "lost"]


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_rewritten_table_keeps_the_rows_from_before_the_slot(with_old_rows: Outbox, rewrite: str) -> None:
    outbox = with_old_rows
    outbox.database.execute(rewrite)
    with outbox.relay():
        tally = clean(outbox)
        assert tally.rows == 0
        assert any("was rewritten" in note and "walrelay init" in note for note in tally.notes)
        assert "was rewritten" in outbox.init()["the outbox"]
        outbox.write("later")
        tally = clean(outbox)
        assert (tally.rows, tally.unknown) == (1, 6)
        assert left(outbox) == list(range(6))
        outbox.database.execute("UPDATE walrelay.slots SET published_from = 0")  # as the docs say
        assert clean(outbox).rows == 6


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_table_that_only_ever_had_published_rows_may_be_rewritten(outbox: Outbox, rewrite: str) -> None:
    publish(outbox, *range(5))
    outbox.database.execute(rewrite)
    with outbox.relay():
        assert clean(outbox).rows == 5


def test_a_row_from_before_the_slot_does_not_become_a_published_one_by_an_update(with_old_rows: Outbox) -> None:
    outbox = with_old_rows
    outbox.database.execute("UPDATE outbox SET type = 'corrected'")
    with outbox.relay():
        tally = clean(outbox)
    assert (tally.rows, tally.unknown) == (3, 3)
    assert left(outbox) == list(range(3))


def test_a_table_that_another_took_the_place_of_during_the_pass_is_not_touched(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pg_repack does it: the rows are in another file, of a transaction that had ended when the pass began."""
    publish(outbox, "published")
    database = outbox.database
    database.execute("CREATE TABLE other (LIKE outbox INCLUDING ALL)")
    fill(database, "other", "never published")

    def swap(self: Cleanup, cutoff: object) -> None:
        database.execute(
            "BEGIN; LOCK TABLE outbox, other IN ACCESS EXCLUSIVE MODE; SET LOCAL allow_system_table_mods = on;"
            " CREATE TEMP TABLE files AS SELECT oid AS o, relfilenode AS f FROM pg_class"
            " WHERE relname IN ('outbox', 'other');"
            " UPDATE pg_class SET relfilenode = (SELECT f FROM files WHERE o <> pg_class.oid)"
            " WHERE relname IN ('outbox', 'other'); DROP TABLE files; COMMIT"
        )

    with outbox.relay():
        with monkeypatch.context() as patch:
            patch.setattr(Cleanup, "_tell_what_holds_back", swap)
            clean(outbox)
        assert left(outbox) == ["never published"]


def test_a_name_that_another_table_got_during_the_pass_is_not_cleaned(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(outbox, "published")
    outbox.database.execute("CREATE TABLE other (LIKE outbox INCLUDING ALL)")
    fill(outbox.database, "other", "never published")

    with outbox.relay() as relay:

        def rename(self: Cleanup, cutoff: object) -> None:
            relay.stop()  # it would end in an error
            outbox.database.execute(
                "BEGIN; ALTER TABLE outbox RENAME TO gone; ALTER TABLE other RENAME TO outbox; COMMIT"
            )

        with monkeypatch.context() as patch:
            patch.setattr(Cleanup, "_tell_what_holds_back", rename)
            clean(outbox)
    assert left(outbox) == ["never published"]


def a_filled_day(outbox: Outbox, day: str) -> None:
    outbox.database.execute("CREATE TABLE filled (LIKE outbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
    fill(outbox.database, "filled", "never published", f"'{day} 12:00+00'")
    attach(outbox, day)


def a_day_filled_in_the_transaction_that_attaches_it(outbox: Outbox, day: str) -> None:
    outbox.database.execute(
        "BEGIN; CREATE TABLE filled (LIKE outbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS); SAVEPOINT one;"
        " INSERT INTO filled (aggregate_type, aggregate_id, type, payload, created_at)"
        f" VALUES ('order', '1', 't', '\"never published\"', '{day} 12:00+00'); RELEASE one;"
        f" ALTER TABLE outbox ATTACH PARTITION filled FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00'); COMMIT"
    )


def a_day_filled_while_it_was_detached(outbox: Outbox, day: str) -> None:
    outbox.database.execute(
        f"CREATE TABLE filled PARTITION OF outbox FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00')"
    )
    outbox.database.execute("ALTER TABLE outbox DETACH PARTITION filled")
    fill(outbox.database, "filled", "never published", f"'{day} 12:00+00'")
    attach(outbox, day)


def attach(outbox: Outbox, day: str) -> None:
    outbox.database.execute(
        f"ALTER TABLE outbox ATTACH PARTITION filled FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00')"
    )


@pytest.mark.parametrize(
    "add", [a_filled_day, a_day_filled_in_the_transaction_that_attaches_it, a_day_filled_while_it_was_detached]
)
def test_a_partition_that_was_filled_elsewhere_keeps_its_rows(
    partitioned: Outbox, add: Callable[[Outbox, str], None]
) -> None:
    outbox, day = partitioned, str(days.today().replace(day=1, month=1))
    add(outbox, day)
    fill(outbox.database, "outbox", "published", OF_NO_DAY)
    with outbox.relay():
        tally = clean(outbox)
        assert tally.rows == 1
        assert any("filled" in note and "walrelay init" in note for note in tally.notes)
        assert "never published" in left(outbox)
        outbox.init()
        tally = clean(outbox)
        assert (tally.rows, tally.unknown, left(outbox)) == (0, 1, ["never published"])
        outbox.database.execute("UPDATE walrelay.slots SET published_from = 0")  # as the docs say
        assert clean(outbox).rows == 1


def test_a_partition_that_was_made_as_one_needs_no_note(partitioned: Outbox) -> None:
    day = days.today().replace(day=1, month=1)
    partitioned.database.execute(
        f"CREATE TABLE by_hand PARTITION OF outbox FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00')"
    )
    partitioned.database.execute("VACUUM FULL pg_attribute")
    partitioned.database.execute("ALTER TABLE outbox ALTER COLUMN aggregate_id TYPE varchar(200)")
    fill(partitioned.database, "outbox", "of that day", f"'{day} 12:00+00'")
    with partitioned.relay() as relay:
        partitioned.values(relay)
        tally = clean(partitioned)
    assert (tally.rows, tally.notes) == (1, [])
    assert left(partitioned) == []


def test_rows_of_an_unlogged_partition_stay(partitioned: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """No relay starts with one, so nothing is confirmed either; the one does not rely on the other."""
    day = days.today().replace(day=1, month=1)
    partitioned.database.execute(
        f"CREATE UNLOGGED TABLE quiet PARTITION OF outbox FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00')"
    )
    fill(partitioned.database, "outbox", "in no WAL", f"'{day} 12:00+00'")
    fill(partitioned.database, "outbox", "in the WAL", OF_NO_DAY)
    monkeypatch.setattr(Cleanup, "_until_confirmed", lambda self, edge: iter(()))
    tally = clean(partitioned)
    assert any("unlogged" in note for note in tally.notes)
    assert left(partitioned) == ["in no WAL"]


def test_what_was_noted_by_an_earlier_version_still_holds_for_a_table_that_was_never_rewritten(
    with_old_rows: Outbox,
) -> None:
    outbox = with_old_rows
    outbox.database.execute("ALTER TABLE walrelay.slots DROP COLUMN parts")
    with outbox.relay():
        tally = clean(outbox)
        assert (tally.rows, tally.unknown) == (3, 3)
        assert "the outbox" not in outbox.init()
        outbox.write("later")
        assert clean(outbox).rows == 1
        assert left(outbox) == list(range(3))


def test_a_backfill_takes_note_of_the_outbox(database: Database, way: str) -> None:
    outbox = Outbox(database, way, **AT_ONCE)
    outbox.init()
    database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
    database.execute("DELETE FROM walrelay.slots")
    outbox.write(*range(3))
    assert outbox.backfill()
    database.execute("ALTER PUBLICATION walrelay SET (publish = 'update')")
    outbox.write("lost")
    database.execute("ALTER PUBLICATION walrelay SET (publish = 'insert')")
    publish(outbox, "after")
    with outbox.relay(), pytest.raises(Fatal, match="was altered"):
        clean(outbox)


def test_a_slot_that_is_made_anew_while_the_clean_up_waits_for_it_confirms_nothing_of_before(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands behind rows that its backfill is still to publish."""
    outbox.write("not published")
    waits = Cleanup._until_confirmed

    def anew(self: Cleanup, edge: Any) -> Any:
        outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
        outbox.database.execute("DELETE FROM walrelay.slots")
        outbox.init()
        return waits(self, edge)

    monkeypatch.setattr(Cleanup, "_until_confirmed", anew)
    with pytest.raises(Fatal, match=r"walrelay\.slots changed while the clean-up"):
        clean(outbox)
    assert left(outbox) == ["not published"]


def test_a_filter_or_a_name_with_a_per_cent_sign(database: Database, way: str) -> None:
    if database.server.major < 15:
        pytest.skip("row filters came with PostgreSQL 15")
    outbox = Outbox(database, way, **AT_ONCE, outbox={"table": '"of%fers"'})
    init_partitioned(outbox)
    database.execute('ALTER TABLE "of%fers" ADD COLUMN seq int DEFAULT 4')
    database.execute("""ALTER PUBLICATION walrelay SET TABLE "of%fers" WHERE (seq % 4 = 0 AND type <> '100%s')""")
    outbox.init()
    database.execute("UPDATE walrelay.slots SET published_from = 0")  # nothing was written before
    day = days.today().replace(day=1, month=1)
    database.execute(days.NewDays("public", "of%fers").day(day))
    fill(database, '"of%fers"', "of a day", f"'{day} 12:00+00'")
    fill(database, '"of%fers"', "of none", OF_NO_DAY)
    with outbox.relay() as relay:
        assert len(outbox.values(relay)) == 2
        tally = clean(outbox)
        assert (tally.rows, tally.dropped) == (2, [f'public."of%fers_{day:%Y%m%d}"'])
    assert left(outbox) == []


def test_an_update_that_moves_a_row_to_another_partition_publishes_it_again_with_its_id(partitioned: Outbox) -> None:
    """PostgreSQL writes a deletion and an insertion. docs/cleanup.md has the trigger that forbids it."""
    with partitioned.relay() as relay:
        partitioned.write("moved")
        partitioned.values(relay)
        partitioned.database.execute("UPDATE outbox SET type = 'stays where it is'")
        partitioned.database.execute("UPDATE outbox SET created_at = created_at + interval '1 day'")
        first, second = partitioned.messages(relay)
        assert first.value == second.value == b'"moved"'
        assert header(first, "id") == header(second, "id")
        partitioned.database.execute(
            "CREATE FUNCTION outbox_is_written_once() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'rows of the outbox are written once'; END $$;"
            " CREATE TRIGGER written_once BEFORE UPDATE ON outbox FOR EACH ROW"
            " EXECUTE FUNCTION outbox_is_written_once()"
        )
        with pytest.raises(psycopg.errors.RaiseException):
            partitioned.database.execute("UPDATE outbox SET created_at = created_at - interval '1 day'")
        assert clean(partitioned).notes == []
