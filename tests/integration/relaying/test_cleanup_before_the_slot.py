"""`walrelay cleanup` and rows of which it is not known that this slot published them."""

from collections import Counter
from threading import Thread

import pytest

from tests.integration.relaying.cleaning import AT_ONCE, clean, left, one_way, publish
from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox, without_sentinels
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.errors import Fatal


@pytest.fixture
def outbox(make_outbox: OutboxMaker) -> Outbox:
    """Its relay tells at once how far an idle server got."""
    return make_outbox(**AT_ONCE)


def without_a_slot(database: Database, way: str) -> Outbox:
    """Everything that init makes is there, but the slot and its record."""
    outbox = Outbox(database, way, **AT_ONCE)
    outbox.init()
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
    outbox.database.execute("DELETE FROM walrelay.slots")
    return outbox


@one_way
def test_rows_from_before_the_slot_stay_and_are_counted(database: Database, way: str) -> None:
    outbox = Outbox(database, way, **AT_ONCE)
    outbox.init()
    publish(outbox, "of the first slot")
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
    outbox.database.execute("DELETE FROM walrelay.slots; DELETE FROM walrelay.relays")  # as `walrelay drop` does
    outbox.write("of no slot")
    outbox.init()
    publish(outbox, "of the second")
    with outbox.relay():
        tally = clean(outbox)
    assert (tally.rows, tally.unknown) == (1, 2)
    assert left(outbox) == ["of no slot", "of the first slot"]
    assert any("2 rows are from before the slot" in note for note in tally.notes)


@one_way
def test_a_transaction_that_was_open_while_the_slot_was_made_is_not_taken_for_published(
    database: Database, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making the slot waits for it, and so it is not in the stream."""
    outbox = without_a_slot(database, way)
    with database.connect(autocommit=False) as writer:
        outbox.write("while the slot was made", connection=writer)
        making = Thread(target=outbox.init, daemon=True)
        making.start()
        wait_until(
            lambda: database.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"),
            10,
            "the slot to wait for the transaction",
        )
        writer.commit()
        making.join(10)
    publish(outbox, "later")
    assert len(without_sentinels(outbox.broker.durable)) == 1
    with outbox.relay():
        tally = clean(outbox)
    assert left(outbox) == ["while the slot was made"]
    assert (tally.rows, tally.unknown) == (1, 1)


@one_way
@pytest.mark.parametrize("gap", ["SET (publish = 'delete')", "DROP TABLE outbox"])
def test_rows_from_while_the_table_was_not_published_stay_after_init_mended_that(outbox: Outbox, gap: str) -> None:
    publish(outbox, "published")
    outbox.database.execute(f"ALTER PUBLICATION walrelay {gap}")
    outbox.write("meanwhile")
    outbox.init()
    publish(outbox, "later")
    assert b'"meanwhile"' not in [message.value for message in outbox.broker.durable]
    with outbox.relay():
        tally = clean(outbox)
        assert (tally.rows, tally.unknown) == (1, 2)
        assert left(outbox) == ["meanwhile", "published"]
        outbox.database.execute("UPDATE walrelay.slots SET published_from = 0")  # as the docs say
        assert clean(outbox).rows == 2


@one_way
def test_what_a_backfill_published_goes(database: Database, way: str) -> None:
    outbox = without_a_slot(database, way)
    outbox.write(*range(10))
    assert outbox.backfill()
    with outbox.relay():
        assert clean(outbox).rows == 10


@one_way
def test_an_unfinished_backfill_refuses(outbox: Outbox) -> None:
    publish(outbox, 1)
    outbox.database.execute(
        "UPDATE walrelay.slots SET backfill ="
        """ '{"command": "recover", "floor": 0, "since": null, "published": 0, "order": [], "reached": []}'"""
    )
    with pytest.raises(Fatal, match="did not finish"):
        clean(outbox)
    assert left(outbox) == [1]


@one_way
def test_recover_after_a_clean_up_publishes_the_rest_and_a_clean_up_after_it_takes_all(outbox: Outbox) -> None:
    publish(outbox, *range(10))
    with outbox.relay():
        assert clean(outbox).rows == 10
    publish(outbox, *range(10, 15))
    outbox.write(*range(15, 20))
    outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [outbox.settings.source.slot])
    with pytest.raises(Fatal, match="is gone") as caught:
        clean(outbox)
    assert "walrelay recover" in caught.value.hint
    assert left(outbox) == list(range(10, 20))
    outbox.recover()
    with outbox.relay():
        assert clean(outbox).rows == 10
    values = Counter(message.value for message in without_sentinels(outbox.broker.durable))
    assert values == Counter(str(number).encode() for number in range(20))


@one_way
def test_a_record_of_an_older_walrelay_is_completed_by_init(outbox: Outbox) -> None:
    publish(outbox, 1)
    outbox.database.execute("ALTER TABLE walrelay.slots DROP COLUMN published_from")
    with pytest.raises(Fatal, match="does not say from when on") as caught:
        clean(outbox)
    assert "walrelay init" in caught.value.hint
    outbox.init()
    publish(outbox, 2)
    with outbox.relay():
        tally = clean(outbox)
    assert (tally.rows, tally.unknown) == (1, 1)


@one_way
def test_numbers_that_came_round_do_not_make_an_unpublished_row_a_published_one(
    database: Database, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2^32 transactions later the number of a row from before the slot looks like one of a later transaction."""
    outbox = without_a_slot(database, way)
    outbox.write("before the slot")
    outbox.init()
    publish(outbox, "later")
    outbox.database.execute("UPDATE walrelay.slots SET published_from = 1")
    with outbox.relay():
        monkeypatch.setattr("walrelay.table.published._ROUND", 1)
        tally = clean(outbox)
    assert left(outbox) == ["before the slot"]
    assert (tally.rows, tally.unknown) == (1, 1)
