"""Notifications by a role without any right, as many as PostgreSQL takes: pauses are obeyed, and memory stays."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.conftest import Deploy
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until


@contextmanager
def flooded(dsn: str, *texts: tuple[str, str]) -> Iterator[None]:
    """`texts`: channel, and the SQL of a text with a number `g` in it; a session for each."""
    over, sending = Event(), Event()

    def flood(channel: str, text: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            first = 0
            while not over.is_set():
                statement = f"SELECT count(pg_notify('{channel}', {text})) FROM generate_series(%s::int, %s::int) g"
                connection.execute(statement, [first, first + 50_000])
                first += 50_000
                sending.set()

    threads = [Thread(target=flood, args=each) for each in texts]
    for each in threads:
        each.start()
    assert sending.wait(60)
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join()


@pytest.mark.parametrize("own", [False, True], ids=["of other slots", "of its own slot"])
def test_a_role_without_rights_can_neither_fill_memory_nor_hold_up_a_pause(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, own: bool
) -> None:
    deployment = deploy(database, kafka, topic)
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    role = f"nobody_{database.name}"
    database.execute(f"CREATE ROLE {role} LOGIN")
    before = relay.peak_rss_bytes
    start = f"'{deployment.slot_name} ' || " if own else ""
    texts = [("walrelay_relays", "g::text"), ("walrelay_activity", f"{start}g::text")]

    def states() -> list[str]:
        return [state for (state,) in database.execute("SELECT state FROM walrelay.relays")]

    try:
        with flooded(make_conninfo(database.dsn, user=role), *texts):
            database.execute("UPDATE walrelay.relays SET paused = true, pause_reason = 'incident'")
            wait_until(lambda: states() == ["paused"], 20, "pause")
            (held,) = deployment.write("2")
            database.execute("UPDATE walrelay.relays SET paused = false")
            deployment.catch_up()
            assert held in deployment.delivered_ids()
        relay.wait_for("noticed", containing="notifications a second")
        assert relay.peak_rss_bytes - before < 40 * 2**20
    finally:
        database.execute(f"DROP ROLE {role}")
