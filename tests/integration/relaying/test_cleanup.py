"""`walrelay cleanup`: deletes what was published and is confirmed, and nothing else."""

from collections import Counter
from threading import Event, Thread

import pytest

from tests.conftest import PostgresMaker
from tests.integration.relaying.cleaning import AT_ONCE, clean, left, one_way, publish
from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox, small, without_sentinels
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from walrelay.errors import Fatal
from walrelay.operations.cleanup import CleanupStep, Session, batches
from walrelay.operations.cleanup.cleanup import Cleanup


@pytest.fixture
def outbox(make_outbox: OutboxMaker) -> Outbox:
    """Its relay tells at once how far an idle server got."""
    return make_outbox(**AT_ONCE)


def test_deletions_are_not_in_the_stream_and_what_was_published_goes(outbox: Outbox) -> None:
    outbox.write(*range(50))
    with outbox.relay() as relay:
        assert len(outbox.messages(relay)) == 50
        assert clean(outbox).rows == 50
        assert left(outbox) == []
        outbox.write(50)
        assert outbox.values(relay) == [str(number).encode() for number in range(51)]
        assert outbox.watcher.retries == []


def test_the_plugin_sends_no_deletion_to_begin_with(outbox: Outbox) -> None:
    """Seen through a second slot, with the options that the relay gives."""
    database, plugin = outbox.database, outbox.settings.source.plugin
    watching = f"{outbox.settings.source.slot}_watching"
    with outbox.relay():
        database.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [watching, plugin])
        outbox.write(1, 2)
        assert clean(outbox).rows == 2
    options = [text for option in outbox.wiring.options(binary=False) for text in option]
    ((inserted, deleted),) = database.execute(
        "SELECT count(*) FILTER (WHERE data ~ ANY (%s)), count(*) FILTER (WHERE data ~ ANY (%s))"
        " FROM (SELECT encode(data, 'escape') AS data FROM"
        " pg_logical_slot_peek_binary_changes(%s, NULL, NULL, VARIADIC %s::text[])) AS changes",
        [["^I", '"action":"I"', '"kind":"insert"'], ["^D", '"action":"D"', '"kind":"delete"'], watching, options],
    )
    assert (inserted, deleted) == (2, 0)


@one_way
def test_what_is_not_confirmed_is_waited_for_and_then_stays(outbox: Outbox) -> None:
    publish(outbox, *range(5))
    outbox.broker.withhold()
    with outbox.relay() as relay:
        outbox.write(*range(5, 10))
        relay.offers(10)
        with pytest.raises(Fatal, match=f"slot '{outbox.settings.source.slot}' is at .*the relay") as caught:
            clean(outbox, patience=0.5)
        assert "status" in caught.value.hint
        assert left(outbox) == list(range(10))
        outbox.broker.release()
        assert clean(outbox).rows == 10


@one_way
def test_without_a_relay_it_says_that_none_runs(outbox: Outbox) -> None:
    outbox.write(1)
    with pytest.raises(Fatal, match="no relay reads it") as caught:
        clean(outbox, patience=0.2)
    assert "walrelay run" in caught.value.hint
    assert left(outbox) == [1]


@one_way
def test_under_load_nothing_goes_that_no_receipt_came_for(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts come late, passes follow each other, and transactions have savepoints or are rolled back."""
    halt, acknowledging = Event(), Event()
    committed: list[int] = []

    def write(first: int) -> None:
        number = first
        with outbox.database.connect(autocommit=False) as connection:
            while not halt.wait(0.002):
                outbox.write(number, connection=connection)
                with connection.transaction():  # a savepoint
                    outbox.write(number + 1, connection=connection)
                halt.wait(0.6 if first == 3_000_000 else 0.01)  # some are open when the pass begins
                if number % 7:
                    connection.commit()
                    committed.extend((number, number + 1))
                else:
                    connection.rollback()
                number += 2

    def acknowledge() -> None:
        while not halt.wait(0.01):
            if acknowledging.is_set():
                outbox.broker.grant(4)

    def withhold(self: Cleanup, cutoff: object) -> None:
        """When the slot has confirmed what it has to: what is deleted from now on without a receipt gets none."""
        acknowledging.clear()
        outbox.broker.withhold()

    monkeypatch.setattr(Cleanup, "_tell_what_holds_back", withhold)
    monkeypatch.setattr("walrelay.operations.cleanup.cleanup._LOOK", 0.002)
    outbox.broker.withhold()
    threads = [Thread(target=write, args=(first * 1_000_000,), daemon=True) for first in range(1, 4)]
    with outbox.relay() as relay:
        for thread in threads:
            thread.start()
        relay.offers(300)
        threads.append(Thread(target=acknowledge, daemon=True))
        threads[-1].start()
        gone = set[int]()
        for _ in range(4):
            acknowledging.set()
            clean(outbox, patience=20)
            known = {*committed}
            durable = {int(message.value or b"") for message in without_sentinels(outbox.broker.durable)}
            there = {int(text) for (text,) in outbox.database.execute("SELECT payload::text FROM outbox")}
            gone = known - there
            assert gone <= durable, "rows went that have no receipt"
        assert gone
        halt.set()
        for thread in threads:
            thread.join(10)
        outbox.broker.release()
        assert Counter(outbox.values(relay)) == Counter(str(number).encode() for number in committed)
        clean(outbox)
        assert left(outbox) == []


@one_way
def test_rows_of_an_open_transaction_and_of_its_savepoints_stay_when_it_commits_during_the_pass(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not in the slot's confirmed part, although every row is visible when its turn comes."""
    with outbox.relay() as relay:
        with outbox.database.connect(autocommit=False) as writer:
            outbox.write("open", connection=writer)
            with writer.transaction():
                outbox.write("in a savepoint", connection=writer)
            outbox.write("after")
            relay.confirms(outbox.end_of_wal())

            def commit(self: Cleanup, cutoff: object) -> None:
                outbox.broker.withhold()
                writer.commit()

            with monkeypatch.context() as patch:
                patch.setattr(Cleanup, "_tell_what_holds_back", commit)  # when the slot has confirmed what it has to
                clean(outbox)
        assert {"open", "in a savepoint"} <= set(left(outbox))
        outbox.broker.release()
        assert len(outbox.values(relay)) == 3
        clean(outbox)
    assert left(outbox) == []


@one_way
def test_rows_that_are_committed_after_the_pass_began_stay(outbox: Outbox) -> None:
    """Their numbers are above that of the pass, from which 32 bits alone would not tell them."""
    publish(outbox, *(f"{number} {'x' * 500}" for number in range(200)))
    with outbox.relay():
        with Session(outbox.wiring.dsn) as session:
            pages = session.value("SELECT pg_relation_size('public.outbox') / 8192")
        assert pages > 1
        written: list[str] = []

        def write_at_the_first_batch(step: CleanupStep) -> None:
            if step.what.startswith("cleaning") and not written:
                written.append("late")
                outbox.broker.withhold()
                outbox.write("late")
                outbox.database.execute("UPDATE outbox SET created_at = '2020-01-01' WHERE payload = '\"late\"'")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("walrelay.operations.cleanup.batches._FIRST", 1)
            patch.setattr("walrelay.operations.cleanup.batches._MOST", 1)
            patch.setattr(batches.Heap, "_pages", lambda self: pages + 50)
            clean(outbox, at=write_at_the_first_batch)
        assert left(outbox) == ["late"]
        outbox.broker.release()


@one_way
def test_a_prepared_transactions_rows_stay(own_server: PostgresServer, way: str) -> None:
    database = own_server.create_database()
    outbox = Outbox(database, way, **AT_ONCE)
    outbox.init()
    with outbox.relay() as relay:
        with database.connect(autocommit=False) as writer:
            outbox.write("prepared", connection=writer)
            writer.execute("PREPARE TRANSACTION 'p'")
            writer.rollback()
        outbox.write("later")
        relay.confirms(outbox.end_of_wal())
        assert clean(outbox).rows == 0  # the horizon is that of the oldest transaction
        outbox.broker.withhold()
        database.execute("COMMIT PREPARED 'p'")
        with pytest.raises(Fatal):
            clean(outbox, patience=0.3)
        assert left(outbox) == ["later", "prepared"]
        outbox.broker.release()
        assert clean(outbox).rows == 2
    database.drop()


@one_way
def test_every_slot_of_the_outbox_is_waited_for(outbox: Outbox) -> None:
    second = outbox.under(source={"slot": f"{outbox.settings.source.slot}_2"})
    second.init()
    publish(outbox, *range(3))
    with outbox.relay():
        with pytest.raises(Fatal, match=f"'{second.settings.source.slot}' is at"):
            clean(outbox, patience=0.3)
        outbox.database.execute("SELECT pg_drop_replication_slot(%s)", [second.settings.source.slot])
        with pytest.raises(Fatal, match="is gone"):
            clean(outbox)
        outbox.database.execute("DELETE FROM walrelay.slots WHERE slot_name = %s", [second.settings.source.slot])
        assert clean(outbox).rows == 3


@one_way
def test_a_slot_of_another_outbox_is_not_waited_for(outbox: Outbox) -> None:
    other = Outbox(
        outbox.database, "text", outbox={"table": "other"}, source={"slot": f"{outbox.settings.source.slot}_2"}
    )
    other.init()
    publish(outbox, *range(3))
    with outbox.relay():
        assert clean(outbox).rows == 3


@one_way
def test_rows_whose_age_is_not_known_stay(make_outbox: OutboxMaker, database: Database) -> None:
    database.execute("CREATE TABLE t (id int, aggregate_id text, payload jsonb, at timestamptz)")
    outbox = make_outbox(**AT_ONCE, **small(created_at="at"))
    database.execute("INSERT INTO t VALUES (1, 'a', '1', now()), (2, 'a', '2', NULL)")
    with outbox.relay() as relay:
        relay.confirms(outbox.end_of_wal())
        assert clean(outbox).rows == 1
        assert left(outbox) == [2]


@one_way
def test_a_table_without_times_says_what_to_do(make_outbox: OutboxMaker, database: Database) -> None:
    database.execute("CREATE TABLE t (id int, aggregate_id text, payload jsonb)")
    outbox = make_outbox(**AT_ONCE, **small())
    with pytest.raises(Fatal, match="how old") as caught:
        clean(outbox)
    assert "track_commit_timestamp" in caught.value.hint


@one_way
def test_commit_timestamps_do_where_there_is_no_column(private_postgres: PostgresMaker, way: str) -> None:
    database = private_postgres(track_commit_timestamp=True).create_database()
    database.execute("CREATE TABLE t (id int, aggregate_id text, payload jsonb)")
    outbox = Outbox(database, way, **AT_ONCE, **small())
    outbox.init()
    database.execute("INSERT INTO t VALUES (1, 'a', '1')")
    with outbox.relay() as relay:
        relay.confirms(outbox.end_of_wal())
        assert clean(outbox, 3600).rows == 0
        assert clean(outbox).rows == 1


@one_way
def test_rows_that_the_publication_leaves_out_and_children_stay(outbox: Outbox) -> None:
    if outbox.database.server.major < 15:
        pytest.skip("row filters came with PostgreSQL 15")
    outbox.database.execute("CREATE TABLE child () INHERITS (outbox)")
    outbox.database.execute(
        "INSERT INTO child (aggregate_type, aggregate_id, type, payload) VALUES ('order', '1', 't', '7')"
    )
    outbox.database.execute("ALTER PUBLICATION walrelay SET TABLE ONLY outbox WHERE (aggregate_id <> '2')")
    outbox.init()
    publish(outbox, 1, 2, 3)
    with outbox.relay():
        assert clean(outbox).rows == 2
    assert left(outbox) == [2, 7]
