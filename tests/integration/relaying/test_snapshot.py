"""What a new slot's snapshot shows, and when it can be read."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.conftest import PostgresMaker
from tests.integration.relaying.test_recover import awaited, transaction
from tests.servers.waiting import wait_until
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.slots import new_slot
from walrelay.postgres.snapshot import View


@pytest.mark.parametrize("later", [False, True], ids=["the newest", "a newer one has ended"])
def test_a_snapshot_that_shows_a_commit_is_read_once_that_is_done(private_postgres: PostgresMaker, later: bool) -> None:
    """A commit that waits for a standby stands for one that has written its WAL and is not done."""
    server = private_postgres()
    database = server.create_database()
    database.execute("CREATE TABLE numbers (n int)")
    with ExitStack() as stack:
        catalog = stack.enter_context(Catalog(database.dsn))
        first, second, committing = (stack.enter_context(database.connect(autocommit=False)) for _ in range(3))
        threads = stack.enter_context(ThreadPoolExecutor(2))
        stack.callback(server.configure, synchronous_standby_names="")
        awaited(database, first, None)
        opened = list[View]()

        def look() -> None:
            making = new_slot(database.dsn, catalog, "one", "pgoutput", failover=False, patience=30)
            with making as made, View(database.dsn, catalog, made.snapshot) as view:
                opened.append(view)
                assert view.rows("SELECT n FROM public.numbers") == [(1,)]

        looking = threads.submit(look)
        awaited(database, second, first)
        first.rollback()
        awaited(database, first, second)
        committing.execute("INSERT INTO numbers VALUES (1)")
        server.configure(synchronous_standby_names="nobody")
        committed = threads.submit(committing.commit)
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        wait_until(lambda: database.execute(waits), 30, "the commit to wait")
        if later:
            newer = stack.enter_context(database.connect(autocommit=False))
            transaction(newer)
            newer.rollback()
        second.rollback()
        asks = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_snapshot_xip(s)%' AND pid <> pg_backend_pid()"
        wait_until(lambda: database.execute(asks), 30, "the commit to be waited for")
        assert not opened
        server.configure(synchronous_standby_names="")
        committed.result(30)
        looking.result(30)
    database.drop_slots()
