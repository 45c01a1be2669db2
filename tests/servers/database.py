"""A PostgreSQL server at an address, and a database on it: what the tests ask of either, whoever runs the server."""

import uuid
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.servers.ports import LOOPBACK
from tests.servers.proxy import Proxy
from tests.servers.waiting import wait_until

_EMPTYING = """
DO $$
DECLARE
    statement text;
BEGIN
    SET LOCAL lock_timeout = '10s';
    FOR statement IN
        SELECT format('DROP PUBLICATION %I', pubname) FROM pg_publication
        UNION ALL
        SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    LOOP
        EXECUTE statement;
    END LOOP;
    CREATE SCHEMA public;
END $$
"""

Params = Sequence[Any] | dict[str, Any]


class Database:
    """One database. Its slots and backends end with it."""

    def __init__(self, server: "Postgres", name: str) -> None:
        self.server = server
        self.name = name
        self.dsn = server.database(name)

    def through(self, proxy: Proxy) -> str:
        """The connection string by way of a proxy in front of `server.port`."""
        return make_conninfo(self.dsn, host=LOOPBACK, port=proxy.port)

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection, in autocommit unless told otherwise."""
        return psycopg.connect(self.dsn, **{"autocommit": True, **options})

    def execute(self, query: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """The rows of one statement, each time in a connection of its own: a restart in between is no matter."""
        with self.connect() as connection:
            return _rows(connection, query, params)

    def drop(self) -> None:
        """End every backend and walsender on the database, drop its slots, drop it."""
        self.drop_slots()
        self.server.drop_database(self.name)

    def empty(self) -> None:
        """As if it were new, in a tenth of the time: without slots, publications, schemas and settings."""
        self.drop_slots()
        reset = sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(self.name)).as_string()
        with self.connect() as connection:
            connection.execute(_EMPTYING.encode())
            connection.execute(reset.encode())

    def drop_slots(self) -> None:
        """End the database's walsenders and drop its slots."""
        wait_until(self._drop_slots, 10, f"the slots of {self.name} to be dropped", ignoring=psycopg.Error)

    def _drop_slots(self) -> bool:
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                " WHERE database = %s AND active_pid IS NOT NULL",
                [self.name],
            )
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                " WHERE database = %s AND active_pid IS NULL",
                [self.name],
            )
            left = connection.execute("SELECT 1 FROM pg_replication_slots WHERE database = %s", [self.name])
            return left.fetchone() is None


class Postgres:
    """A server that answers at `dsn` (a superuser's connection string, URL or key=value)."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.port = int(conninfo_to_dict(dsn).get("port") or 5432)

    @property
    def major(self) -> int:
        ((version,),) = self.execute("SELECT current_setting('server_version_num')::int / 10000")
        return int(version)

    @property
    def has_wal2json(self) -> bool:
        with psycopg.connect(self.dsn) as connection:
            try:
                connection.execute(
                    "SELECT pg_create_logical_replication_slot(%s, 'wal2json', temporary => true)",
                    [f"probe_{uuid.uuid4().hex[:12]}"],
                )
            except (psycopg.errors.UndefinedFile, psycopg.errors.InsufficientPrivilege):
                return False
        return True

    def execute(self, query: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """The rows of one statement in the superuser's own database."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return _rows(connection, query, params)

    def database(self, name: str) -> str:
        """The connection string of another database on this server."""
        return make_conninfo(self.dsn, dbname=name)

    def create_database(self, name: str | None = None) -> Database:
        """A new, empty database; without a name it gets a fresh one."""
        name = name or f"test_{uuid.uuid4().hex[:12]}"
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)).as_string())
        return Database(self, name)

    def drop_database(self, name: str) -> None:
        query = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        self.execute(query.as_string())

    def slots(self, database: str | None = None) -> set[str]:
        """The names of the slots on the server, or of one database only."""
        rows = self.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE %(database)s::text IS NULL OR database = %(database)s",
            {"database": database},
        )
        return {str(name) for (name,) in rows}


def _rows(connection: psycopg.Connection[Any], query: str, params: Params | None) -> list[tuple[Any, ...]]:
    cursor = connection.execute(query.encode(), params)
    return cursor.fetchall() if cursor.description else []
