"""Whatever is done to an outbox between writes, each row that a clean-up takes was in the topic.

A model of it is not needed: before a pass the rows are read, after it again, and what went is looked up at the broker.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import psycopg
import pytest

from tests.integration.relaying.cleaning import AT_ONCE, clean
from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database
from walrelay import compose
from walrelay.errors import Fatal
from walrelay.source import days, setup
from walrelay.source.catalog import Catalog

pytestmark = pytest.mark.parametrize("way", ["text"])  # what is published is asked in one way only


class Life:
    """An outbox to which things happen at random."""

    def __init__(self, database: Database, way: str, random: Random) -> None:
        self.database, self.random = database, random
        self.outbox = Outbox(database, way, **AT_ONCE)
        self.partitioned = random.random() < 0.5
        self.number, self.tables, self.history = 0, 0, list[str]()
        self.deleted, self.open = 0, list[psycopg.Connection[Any]]()
        if random.random() < 0.5:  # rows from before the slot
            self.init()
            database.execute("SELECT pg_drop_replication_slot(%s)", [self.outbox.settings.source.slot])
            database.execute("DELETE FROM walrelay.slots")
            self.write()
        self.init()

    def happens(self) -> None:
        """One thing, noted; what PostgreSQL refuses did not happen."""
        things: list[tuple[Callable[[], object], int]] = [
            (self.write, 6),
            (self.open_transaction, 2),
            (self.end_transaction, 2),
            (self.relay, 5),
            (self.clean, 6),
            (self.init, 2),
            (self.alter_the_publication, 1),
            (self.alter_the_table, 2),
            (self.update, 2),
            (self.attach, 2 if self.partitioned else 0),
            (self.detach, 1 if self.partitioned else 0),
        ]
        (thing,) = self.random.choices([thing for thing, _ in things], [weight for _, weight in things])
        self.history.append(thing.__name__)
        with suppress(psycopg.Error):
            thing()

    def init(self) -> None:
        """`walrelay init`, by an operator who does not look at what it says."""
        with suppress(Fatal), Catalog(compose.dsn(self.outbox.settings)) as catalog:
            wanted = compose.wanted(self.outbox.settings, partitioned=self.partitioned)
            list(setup.apply(catalog, wanted, setup.plan(catalog, wanted), patience=20))

    def write(self, connection: psycopg.Connection[Any] | None = None, table: str = "outbox") -> None:
        """A few rows, some by a subtransaction."""
        if connection is None:
            with self.database.connect(autocommit=False) as own:
                self.write(own, table)
            return
        for _ in range(self.random.randint(1, 3)):
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '200ms'; {self.insert(table)}".encode())

    def insert(self, table: str) -> str:
        """Of today, or of a day that has no partition of its own, or may have one."""
        self.number += 1
        when = self.random.choice(["clock_timestamp()", "'1999-01-01 12:00+00'", f"'{self.day(0)} 12:00+00'"])
        return (
            f"INSERT INTO {table} (aggregate_type, aggregate_id, type, payload, created_at)"
            f" VALUES ('order', '1', 't', '{self.number}', {when})"
        )

    def open_transaction(self) -> None:
        connection = psycopg.connect(self.database.dsn)
        self.open.append(connection)
        self.write(connection)

    def end_transaction(self) -> None:
        while self.open:
            connection = self.open.pop()
            with connection, suppress(psycopg.Error):
                self.write(connection)
                connection.commit()

    def relay(self) -> None:
        """Runs until it has confirmed what is there; where it refuses, the operator runs init."""
        try:
            end = self.outbox.end_of_wal()
            with self.outbox.relay() as relay:
                relay.confirms(end)
        except Fatal:
            self.init()

    def clean(self) -> None:
        """With a relay beside it, or nothing would be confirmed. Each row that goes was in the topic."""
        self.end_transaction()
        before, refused = self.rows(), ""
        try:
            with self.outbox.relay() as relay:
                relay.streams()
                try:
                    clean(self.outbox, patience=5)
                except Fatal as error:
                    refused = str(error)
        except Fatal as error:
            refused = str(error)
        self.history.append(refused)
        gone = before - self.rows()
        self.deleted += len(gone)
        durable = {json.loads(message.value) for message in self.outbox.broker.durable if message.value}
        assert gone <= durable, f"{gone - durable} were never published: {self.history}"

    def alter_the_publication(self) -> None:
        without = self.random.choice(
            [
                ["SET (publish = 'update')", "SET (publish = 'insert')"],
                ["SET (publish_via_partition_root = false)", "SET (publish_via_partition_root = true)"],
                ["DROP TABLE outbox", "ADD TABLE outbox"],
                ["SET (publish = 'insert, truncate')", "SET (publish = 'insert')"],
            ]
        )
        self.execute(f"ALTER PUBLICATION walrelay {without[0]}")
        if self.random.random() < 0.7:
            self.write()
        if self.random.random() < 0.8:
            self.execute(f"ALTER PUBLICATION walrelay {without[1]}")

    def alter_the_table(self) -> None:
        self.tables += 1
        statements = [
            f"ALTER TABLE outbox ALTER COLUMN aggregate_id TYPE varchar({500 + self.tables})",
            f"ALTER TABLE outbox ALTER COLUMN aggregate_id TYPE text USING aggregate_id || '{self.tables}'",
            f"ALTER TABLE outbox ADD COLUMN c{self.tables} float DEFAULT random()",
            "VACUUM FULL outbox",
            "CLUSTER outbox USING outbox_pkey",
        ]
        self.execute(self.random.choice(statements))

    def update(self) -> None:
        self.execute("UPDATE outbox SET type = type || 'x' WHERE random() < 0.5")

    def attach(self) -> None:
        """A partition with rows: filled before, in the same transaction, or not at all."""
        day, name = self.day(1), f"part_{self.tables}"
        self.tables += 1
        bounds = f"FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00')"
        into = f"DELETE FROM outbox_default WHERE created_at >= '{day} 00:00+00' AND created_at < '{day} 24:00+00'"
        made = [
            f"CREATE TABLE {name} (LIKE outbox INCLUDING DEFAULTS)",
            self.insert(name).replace("1999", str(day.year)),
        ]
        made[1] = made[1].rpartition(", ")[0] + f", '{day} 12:00+00')"
        attached = f"ALTER TABLE outbox ATTACH PARTITION {name} {bounds}"
        kind = self.random.choice(["born", "filled", "at once", "with a savepoint"])
        self.history.append(kind)
        match kind:
            case "born":
                self.execute(f"{into}; CREATE TABLE {name} PARTITION OF outbox {bounds}")
            case "filled":
                for statement in [*made, into, attached]:
                    self.execute(statement)
            case "at once":
                self.execute(f"BEGIN; {'; '.join([*made, into, attached])}; COMMIT")
            case _:
                self.execute(f"BEGIN; {made[0]}; SAVEPOINT s; {made[1]}; RELEASE s; {into}; {attached}; COMMIT")

    def detach(self) -> None:
        """And filled, and attached again."""
        found = self.database.execute(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid"
            " WHERE inhparent = 'outbox'::regclass AND c.relname LIKE 'part%' ORDER BY 1"
        )
        if found:
            name, bounds = self.random.choice(found)
            self.execute(f"ALTER TABLE outbox DETACH PARTITION {name}")
            day = bounds.partition("('")[2][:10]
            self.execute(self.insert(name).rpartition(", ")[0] + f", '{day} 12:00+00')")
            self.execute(f"ALTER TABLE outbox ATTACH PARTITION {name} {bounds}")

    def execute(self, statement: str) -> None:
        self.history.append(statement[:70])
        with self.database.connect() as connection:
            connection.execute("SET lock_timeout = '200ms'")
            connection.execute(statement.encode())

    def rows(self) -> set[int]:
        return {int(text) for (text,) in self.database.execute("SELECT payload::text FROM outbox")}

    def day(self, least: int) -> Any:
        """One of a few that are over."""
        return days.today().replace(year=2001, month=1, day=self.random.randint(1, 4))


@pytest.mark.parametrize("seed", range(4))
def test_every_row_that_is_deleted_was_in_the_topic_whatever_was_done_to_the_outbox(
    database: Database, way: str, seed: int
) -> None:
    live(database, way, Random(seed), 40)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 110))
def test_every_row_that_is_deleted_was_in_the_topic_over_a_long_life(database: Database, way: str, seed: int) -> None:
    live(database, way, Random(seed), 300)


def live(database: Database, way: str, random: Random, things: int) -> int:
    life = Life(database, way, random)
    try:
        for _ in range(things):
            life.happens()
    finally:
        life.end_transaction()
    return life.deleted
