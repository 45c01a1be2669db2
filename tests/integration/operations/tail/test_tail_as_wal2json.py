"""`walrelay tail --format wal2json` and wal2json itself, byte for byte: either plugin's slot, peeked and followed."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.integration.operations.tail.tailing import Ended, Tailed
from tests.integration.wire.test_wal2json_lines import SCHEMA, TABLE, TYPES, quoted, supported
from tests.servers.database import Database

WAYS = [(plugin, follow) for plugin in ("pgoutput", "wal2json") for follow in (False, True)]


class Comparison:
    """The same workload through the command and through the plugin."""

    def __init__(self, tailed: Tailed, follow: bool) -> None:
        self.tailed, self._follow = tailed, follow

    def printed(self, *statements: str) -> list[bytes]:
        """What the command prints of statements that are each a transaction; the plugin prints the same."""
        done = self._done(statements)
        assert (done.code, done.err) == (0, "")
        expected = self.tailed.printed_by_the_plugin()
        assert done.lines == expected
        assert done.out == b"".join(line + b"\n" for line in expected)
        return expected

    def _done(self, statements: tuple[str, ...]) -> Ended:
        if not self._follow:
            self._write(statements)
            return self.tailed.tail("--limit", "0", "--format", "wal2json")
        with self.tailed.following("--format", "wal2json") as following:
            self._write(statements)
            return following.interrupted()

    def _write(self, statements: tuple[str, ...]) -> None:
        with self.tailed.database.connect() as session:
            for statement in statements:
                session.execute(statement.encode())


@pytest.mark.parametrize(("plugin", "follow"), WAYS)
def test_rows_of_every_type_are_printed_as_by_the_plugin(
    database: Database, tmp_path: Path, plugin: str, follow: bool
) -> None:
    with database.connect() as session:
        session.execute(TYPES.encode())
        session.execute(f"CREATE SCHEMA {quoted(SCHEMA)}".encode())
        types = supported(session)
    columns = ", ".join(f"{quoted(f'c {number} {name}'[:60])} {name}" for number, name in enumerate(types))
    tailed = Tailed(
        database,
        tmp_path,
        plugin,
        compared=True,
        schema=SCHEMA,
        table=TABLE,
        columns=f"gone int, {columns}",
        outbox={"columns": {"id": "no id", "payload": "no payload"}},
    )
    database.execute(f"ALTER TABLE {tailed.table} DROP COLUMN gone")
    most = max(map(len, types.values()))
    rows = [[texts[row] if row < len(texts) else None for texts in types.values()] for row in range(most + 1)]
    casts = ", ".join(f"%s::{name}" for name in types)
    with database.connect() as session:
        cursor = psycopg.ClientCursor(session)
        statements = [cursor.mogrify(f"INSERT INTO {tailed.table} VALUES ({casts})", row) for row in rows]
    printed = Comparison(tailed, follow).printed(*statements)
    assert len(printed) == 3 * len(rows)


@pytest.mark.parametrize(("plugin", "follow"), WAYS)
def test_transactions_of_every_shape_are_printed_as_by_the_plugin(
    database: Database, tmp_path: Path, plugin: str, follow: bool
) -> None:
    tailed = Tailed(database, tmp_path, plugin, compared=True)
    row = f"INSERT INTO {tailed.table} (id, payload) VALUES"
    printed = Comparison(tailed, follow).printed(
        f"{row} ('one', '{{}}')",
        f"BEGIN; {row} ('several', '1'), ('of them', '2'); INSERT INTO other VALUES (1); {row} ('and one', NULL); END",
        "INSERT INTO other VALUES (2)",
        f"BEGIN; {row} ('undone', '{{}}'); ROLLBACK",
        f"BEGIN; {row} ('kept', '1'); SAVEPOINT a; {row} ('undone', '2'); ROLLBACK TO a; {row} ('kept', '3'); END",
        f"ALTER TABLE {tailed.table} REPLICA IDENTITY FULL",
        f"BEGIN; {row} ('changed', '1'); UPDATE {tailed.table} SET payload = '2'; DELETE FROM {tailed.table}; END",
        f"TRUNCATE {tailed.table}",
        f"ALTER TABLE {tailed.table} ADD COLUMN amount numeric(10,3) DEFAULT 1.5",
        f"{row} ('with a new column', '{{}}')",
        f'ALTER TABLE {tailed.table} RENAME amount TO "Amount ""quoted"""',
        f"{row} ('with another name', '{{}}')",
        f'ALTER TABLE {tailed.table} ALTER COLUMN "Amount ""quoted""" TYPE varchar(7)',
        f"{row} ('with another type', '{{}}')",
        "CREATE TABLE unpublished AS SELECT 1 AS n",
    )
    assert sum(line.startswith(b'{"action":"I"') for line in printed) == 10
    assert not any(b"undone" in line for line in printed)


@pytest.mark.parametrize(("plugin", "follow"), WAYS)
def test_messages_that_are_records_are_printed_as_by_the_plugin_and_others_are_not(
    database: Database, tmp_path: Path, plugin: str, follow: bool
) -> None:
    tailed = Tailed(database, tmp_path, plugin, compared=True)
    row = f"INSERT INTO {tailed.table} (id, payload) VALUES"
    printed = Comparison(tailed, follow).printed(
        """SELECT pg_logical_emit_message(true, 'walrelay', '{"id": "a", "payload": {"b": "\\u00e4\n"}}')""",
        f"BEGIN; SELECT pg_logical_emit_message(true, 'walrelay', '2'); {row} ('between', '{{}}');"
        " SELECT pg_logical_emit_message(true, 'of others', '3'), pg_logical_emit_message(true, 'walrelay', '4'); END",
        "SELECT pg_logical_emit_message(true, 'of others', '5')",
        "SELECT pg_logical_emit_message(false, 'walrelay', '6')",
        "SELECT pg_logical_emit_message(false, 'of others', '7')",
        f"{row} ('last', '{{}}')",
    )
    assert [line[11:12] for line in printed] == [*map(str.encode, "BMCBMIMCMBIC")]


def test_what_pgoutput_does_not_send_is_noted(database: Database, tmp_path: Path) -> None:
    generated = "id text, payload text, size int GENERATED ALWAYS AS (length(payload)) STORED"
    tailed = Tailed(database, tmp_path, "pgoutput", columns=generated)
    done = tailed.tail("--format", "wal2json")
    assert done.err == 'note: pgoutput does not send size of "public"."outbox", which wal2json prints\n'
    assert "does not send" not in tailed.tail().err


@pytest.mark.parametrize(
    ("plugin", "note"),
    [("pgoutput", "rows are printed under its name"), ("wal2json", "none would be found")],
)
def test_a_partitioned_table_is_noted(database: Database, tmp_path: Path, plugin: str, note: str) -> None:
    tailed = Tailed(database, tmp_path, plugin, options="PARTITION BY LIST (aggregate_type)")
    database.execute(f"CREATE TABLE orders PARTITION OF {tailed.table} FOR VALUES IN ('order')")
    tailed.write(1)
    done: Any = tailed.tail("--format", "wal2json")
    assert note in done.err
    assert len(done.lines) == (3 if plugin == "pgoutput" else 0)


@pytest.mark.parametrize("follow", [False, True])
def test_types_have_the_names_of_then(database: Database, tmp_path: Path, follow: bool) -> None:
    database.execute("CREATE SCHEMA odd; CREATE SCHEMA \"Odd Two\"; CREATE TYPE lmood AS ENUM ('glad')")
    database.execute("CREATE TYPE lgone AS ENUM ('gone'); CREATE TYPE lmoved AS ENUM ('moved')")
    database.execute('CREATE TYPE "Odd Two"."L mood" AS (a int); CREATE DOMAIN ldomain AS text')
    columns = 'id text, payload text, a lmood, b lgone, c lmoved[], d "Odd Two"."L mood", e ldomain, f lmood[]'
    none = dict.fromkeys(("aggregate_type", "aggregate_id", "type", "headers", "topic", "tenant_id", "created_at"))
    tailed = Tailed(database, tmp_path, "pgoutput", compared=True, columns=columns, outbox={"columns": none})
    row = f"INSERT INTO {tailed.table} VALUES ('1', '{{}}', 'glad', 'gone', '{{moved}}', '(1)', 'e', '{{glad}}')"
    changes = (
        "ALTER TYPE lmood RENAME TO lmood_new",
        f"ALTER TABLE {tailed.table} ALTER b TYPE text",
        "DROP TYPE lgone",
        "ALTER TYPE lmoved SET SCHEMA odd",
        'ALTER TYPE "Odd Two"."L mood" RENAME TO "L new"',
    )
    again = f"ALTER TABLE {tailed.table} REPLICA IDENTITY FULL"  # the server names the types again
    printed = Comparison(tailed, follow).printed(row, *(changes if not follow else ()), again, row)
    assert sum(line.startswith(b'{"action":"I"') for line in printed) == 2


def test_a_row_filter_is_noted(database: Database, tmp_path: Path) -> None:
    if database.server.major < 15:
        pytest.skip("row filters are there since PostgreSQL 15")
    tailed = Tailed(database, tmp_path, "pgoutput")
    database.execute(f"ALTER PUBLICATION walrelay SET TABLE {tailed.table} WHERE (id > 'b'), other")
    tailed.write("a", "c")
    done = tailed.tail("--format", "wal2json")
    assert 'pgoutput sends rows of "public"."outbox" only where (id > \'b\'::text); wal2json prints all' in done.err
