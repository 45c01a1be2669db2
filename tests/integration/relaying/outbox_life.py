"""The life of an outbox to which anything is done between writes, by a developer, an operator and whoever else may."""

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import psycopg

from tests.integration.relaying.cleaning import AT_ONCE, clean
from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database
from walrelay.errors import Fatal
from walrelay.operations import setup
from walrelay.postgres.catalog import Catalog
from walrelay.table import days


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
            (self.alter_the_publication, 2),
            (self.alter_the_table, 2),
            (self.away_and_back, 2),
            (self.put_others_in_its_place, 1),
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
        with suppress(Fatal), Catalog(self.outbox.wiring.dsn) as catalog:
            wiring = self.outbox.wiring
            list(setup.apply(catalog, wiring, setup.plan(catalog, wiring, partitioned=self.partitioned), patience=20))

    def write(self, connection: psycopg.Connection[Any] | None = None, table: str = "outbox") -> None:
        """A few rows, some by a subtransaction."""
        if connection is None:
            with self.database.connect(autocommit=False) as own:
                self.write(own, table)
            return
        for _ in range(self.random.randint(1, 3)):
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '200ms'; {self.insert(table)}".encode())

    def insert(self, table: str, when: str = "") -> str:
        """Of today, or of a day that has no partition of its own, or may have one."""
        self.number += 1
        when = when or self.random.choice(["clock_timestamp()", "'1999-01-01 12:00+00'", f"'{self.day(0)} 12:00+00'"])
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
        """Runs until it has confirmed what is there; where it refuses, the operator runs init, and if that does not
        help, recover.
        """
        for helps in (self.init, self.recover, self.init):
            try:
                end = self.outbox.end_of_wal()
                with self.outbox.relay() as relay:
                    relay.confirms(end)
                return
            except Fatal as error:
                self.history.append(f"relay: {error}")
                helps()

    def recover(self) -> None:
        """`walrelay recover --replace --all`: every row of the table is published, and the slot made again."""
        self.end_transaction()
        with suppress(Fatal):
            self.outbox.recover(everything=True, replace=True)

    def ends_well(self) -> None:
        """Whatever was done, an operator gets it to work again, and then a row that is published goes; of a partitioned
        outbox it would when its day is over.
        """
        self.end_transaction()
        self.database.execute(
            "ALTER PUBLICATION walrelay SET TABLE outbox;"
            " ALTER PUBLICATION walrelay SET (publish = 'insert', publish_via_partition_root = true)"
        )
        self.init()
        self.relay()
        self.init()
        self.database.execute(self.insert("outbox", when="clock_timestamp()"))
        self.relay()
        before = self.deleted
        self.clean(patience=30)
        assert self.partitioned or self.deleted > before, f"nothing goes any more: {self.history}"

    def clean(self, patience: float = 5) -> None:
        """With a relay beside it, or nothing would be confirmed. Each row that goes was in the topic."""
        self.end_transaction()
        before, refused = self.rows(), ""
        try:
            with self.outbox.relay() as relay:
                relay.streams()
                try:
                    clean(self.outbox, patience=patience)
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
                ["SET TABLE outbox WHERE (aggregate_type = 'another')", "SET TABLE outbox"],
                ["SET TABLE outbox (id, aggregate_type)", "SET TABLE outbox"],
                ["RENAME TO another", ""],
            ]
        )
        if without[0].startswith("RENAME"):
            self.make_the_publication_anew()
            return
        self.execute(f"ALTER PUBLICATION walrelay {without[0]}")
        if self.random.random() < 0.7:
            self.write()
        if self.random.random() < 0.8:
            self.execute(f"ALTER PUBLICATION walrelay {without[1]}")

    def make_the_publication_anew(self) -> None:
        self.execute("DROP PUBLICATION walrelay")
        if self.random.random() < 0.7:
            self.write()
        self.execute(
            "CREATE PUBLICATION walrelay FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root = true)"
        )

    def away_and_back(self) -> None:
        """For a while the table has another name, place or kind, and is written to there."""
        away, there, back = self.random.choice(
            [
                ("ALTER TABLE outbox RENAME TO other", "other", "ALTER TABLE other RENAME TO outbox"),
                (
                    "ALTER TABLE outbox SET SCHEMA walrelay",
                    "walrelay.outbox",
                    "ALTER TABLE walrelay.outbox SET SCHEMA public",
                ),
                ("ALTER SCHEMA public RENAME TO other", "other.outbox", "ALTER SCHEMA other RENAME TO public"),
                ("ALTER TABLE outbox SET UNLOGGED", "outbox", "ALTER TABLE outbox SET LOGGED"),
                (
                    "ALTER PUBLICATION walrelay DROP TABLE outbox; ALTER TABLE outbox SET UNLOGGED",
                    "outbox",
                    "ALTER TABLE outbox SET LOGGED; ALTER PUBLICATION walrelay ADD TABLE outbox",
                ),
                ("ALTER TABLE outbox RENAME COLUMN payload TO p", "", "ALTER TABLE outbox RENAME COLUMN p TO payload"),
                ("ALTER TABLE outbox REPLICA IDENTITY FULL", "outbox", "ALTER TABLE outbox REPLICA IDENTITY DEFAULT"),
                ("ALTER TABLE outbox REPLICA IDENTITY NOTHING", "outbox", ""),
                ("CREATE TABLE child () INHERITS (outbox)", "child", "DROP TABLE child"),
                (
                    "CREATE TABLE child () INHERITS (outbox)",
                    "child",
                    "ALTER TABLE child NO INHERIT outbox; DROP TABLE child",
                ),
            ]
        )
        try:
            self.execute(away)
            if there and self.random.random() < 0.8:
                self.write(table=there)
            if self.random.random() < 0.3:
                self.relay()
        finally:
            with self.database.connect() as connection:
                connection.execute(back.encode())

    def put_others_in_its_place(self) -> None:
        """Rows that were written elsewhere, or all at once, or none."""
        self.history.append(kind := self.random.choice(["truncated", "swapped", "moved", "emptied and filled"]))
        copied = "INSERT INTO outbox SELECT * FROM other"
        match kind:
            case "truncated":
                self.execute("TRUNCATE outbox")
            case "swapped" if not self.partitioned:
                self.execute(
                    "BEGIN; ALTER TABLE outbox RENAME TO other; CREATE TABLE outbox (LIKE other INCLUDING ALL);"
                    f" {self.insert('other')}; {copied}; DROP TABLE other; COMMIT"
                )
            case "moved":
                self.execute(f"WITH gone AS (DELETE FROM outbox RETURNING *) {copied.replace('other', 'gone')}")
            case _:
                self.execute(
                    f"BEGIN; CREATE TEMP TABLE other AS SELECT * FROM outbox; TRUNCATE outbox; {copied};"
                    " DROP TABLE other; COMMIT"
                )

    def alter_the_table(self) -> None:
        self.tables += 1
        statements = [
            f"ALTER TABLE outbox ALTER COLUMN aggregate_id TYPE varchar({500 + self.tables})",
            f"ALTER TABLE outbox ALTER COLUMN aggregate_id TYPE text USING aggregate_id || '{self.tables}'",
            f"ALTER TABLE outbox ADD COLUMN c{self.tables} float DEFAULT random()",
            f"ALTER TABLE outbox DROP COLUMN IF EXISTS c{self.random.randint(1, self.tables)}",
            f"ALTER TABLE outbox RENAME COLUMN c{self.random.randint(1, self.tables)} TO r{self.tables}",
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
