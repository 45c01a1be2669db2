"""What the catalog says about slot, publication and table; asked on an ordinary connection.

Every query on that connection goes through one class, so that a test can replace all of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, NamedTuple, Self

from walrelay.errors import Disconnected, Fatal
from walrelay.lsn import LSN
from walrelay.model import System
from walrelay.postgres import connect, rights
from walrelay.postgres.failures import ErrorWords, explained, is_a_standby
from walrelay.postgres.publications import KINDS, PublishedTable


def age(time: str) -> str:
    """SQL: how many seconds ago `time` was, by the server's clock; not less than 0, also where that was set back."""
    return f"greatest(0, extract(epoch FROM clock_timestamp() - ({time})))"


_SURVIVING = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


class Slot(NamedTuple):
    """A row of pg_replication_slots; None where the server does not say, or is too old to say."""

    name: str
    plugin: str | None
    database: str | None
    active_pid: int | None
    restart_lsn: LSN | None
    confirmed_flush_lsn: LSN | None
    wal_status: str | None
    safe_wal_size: int | None
    invalidation_reason: str | None
    failover: bool
    temporary: bool
    two_phase: bool = False


def foreign(slot: Slot, database: str) -> str | None:
    """Why that slot is not one of this database, for people; None if it is."""
    if slot.plugin is None:
        return f"{slot.name} is a physical slot"
    if slot.database != database:
        return f"{slot.name} belongs to database {slot.database}, the DSN leads to {database}"
    return None


def another_slot(name: str, init: str = "walrelay init") -> str:
    """What to do about a foreign slot. `init`: the command that makes a slot, for these settings."""
    return f"source.slot: {name[:61]}_2   # in the settings; then {init} (or correct the database in source.dsn)"


READABLE = "(getdatabaseencoding() <> 'SQL_ASCII' OR attname ~ '^[ -~]+$')"
"""SQL: the column's name is UTF-8. In a database without an encoding it may not be, and then an ordinary session cannot
read it; no setting can name such a column.
"""


class Catalog:
    """Queries on one ordinary connection. Disconnected where the connection is lost, or gives no answer within
    `patience` seconds; then the run is over.
    """

    def __init__(self, dsn: str, *, patience: float = 10.0) -> None:
        self.connection = connect.ordinary(dsn)
        self.connection.patience = patience
        self._database = ""
        self._answers: dict[tuple[str, str], list[tuple[Any, ...]]] | None = None
        self._words = ErrorWords(
            "the control connection to PostgreSQL failed",
            f"the role {self.connection.info.user!r} lacks a right",
            "PostgreSQL does not answer",
            "PostgreSQL takes no writes now",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """All rows of a query; `%s` stands for a parameter."""
        if self._answers is None:
            return self._execute(query, parameters).fetchall()
        asked = query, repr(parameters)
        if asked not in self._answers:
            self._answers[asked] = self._execute(query, parameters).fetchall()
        return self._answers[asked]

    @contextmanager
    def asking_once(self) -> Iterator[None]:
        """Inside, a query that was asked before with the same parameters has the same answer, and is not sent again:
        for many questions about one moment.
        """
        self._answers = {}
        try:
            yield
        finally:
            self._answers = None

    def run(self, statement: str, *parameters: Any) -> int:
        """Returns how many rows the statement changed."""
        return self._execute(statement, parameters).rowcount

    def _execute(self, query: str, parameters: tuple[Any, ...]) -> connect.Cursor:
        with explained(self._words, lambda: self._grants(query)):
            return self.connection.execute(query.encode(), parameters or None)

    def _grants(self, query: str) -> str:
        found = rights.grants_for_statement(self.connection, query)
        return f"{found}  -- `walrelay doctor` has all that the relay needs" if found else ""

    def value(self, query: str, *parameters: Any) -> Any:
        """The first column of the first row; None without a row."""
        rows = self.rows(query, *parameters)
        return rows[0][0] if rows else None

    def commits_survive(self) -> None:
        """From now on commits on this connection survive a crash of the server, even if the database has
        synchronous_commit off.
        """
        self.rows(_SURVIVING)

    @property
    def usable(self) -> bool:
        """Whether the connection can be asked again, after an error."""
        return self.connection.info.transaction_status == connect.Transaction.IDLE

    @property
    def server_version(self) -> int:
        """libpq's number: 150020 is 15.20."""
        return self.connection.info.server_version

    @property
    def database(self) -> str:
        """The server's name for it: a pooler may have another."""
        if not self._database:
            self._database = str(self.value("SELECT current_database()::text"))
        return self._database

    def server_encoding(self) -> str:
        return str(self.value("SHOW server_encoding"))

    def in_recovery(self) -> bool:
        return bool(self.value("SELECT pg_is_in_recovery()"))

    def current_lsn(self) -> LSN:
        """Where the WAL ends now: a lower bound for what is written after this call."""
        return LSN.parse(self.value("SELECT pg_current_wal_insert_lsn()::text"))

    def system(self) -> System:
        """Which history of WAL the server writes now. (pg_control_checkpoint would know of a promotion only later.)"""
        ((identifier, segment),) = self.rows(
            "SELECT system_identifier::text, pg_walfile_name(pg_current_wal_lsn()) FROM pg_control_system()"
        )
        return System(identifier, int(segment[:8], 16))

    def horizon(self) -> tuple[int, LSN]:
        """An xid8 and an LSN: every transaction below the xid8 had ended before the server got to the LSN.

        The snapshot is taken before the functions are called, so the LSN is not earlier.
        """
        ((xmin, lsn),) = self.rows(
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8, pg_current_wal_insert_lsn()::text"
        )
        return xmin, LSN.parse(lsn)

    def slot(self, name: str) -> Slot | None:
        """The slot, if this database has it; Fatal where the name is that of a slot of another database, which may have
        lent its tables to this one (CREATE DATABASE ... TEMPLATE), or of a physical slot.
        """
        found = self.slot_of_any_database(name)
        if found is not None and (whose := foreign(found, self.database)) is not None:
            raise Fatal(f"slot {whose}", hint=another_slot(name), page="server")
        return found

    def slot_of_any_database(self, name: str) -> Slot | None:
        """The slot as the server has it; to be shown, and never to be acted on."""
        row = self.value("SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s", name)
        return _slot(row) if row else None

    def published(self, publication: str, table: str) -> PublishedTable:
        """`table` is an identifier, quoted where it must be."""
        schema_entry = (
            "(SELECT ':' || s.oid FROM pg_publication_namespace s WHERE s.pnpubid = p.oid"
            " AND s.pnnspid = c.relnamespace)"
            if self.server_version >= 150000
            else "NULL"
        )
        exists, inserts, via_root, oid, kind, covered, entry, stamp, not_logged, below = self.rows(
            f"""
            SELECT p.oid IS NOT NULL, coalesce(p.pubinsert, false), coalesce(p.pubviaroot, false), c.oid,
                   c.relkind::text,
                   EXISTS (SELECT FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
                           WHERE t.pubname = p.pubname AND t.tablename = c.relname AND n.oid = c.relnamespace),
                   (SELECT r.oid::int8 FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid),
                   p.oid || ':' || p.xmin::text || coalesce({schema_entry}, ''),
                   (SELECT l.oid::regclass::text FROM pg_class l
                    WHERE (l.oid = c.oid OR l.oid IN (SELECT relid FROM pg_partition_tree(c.oid)))
                      AND (l.relpersistence <> 'p' OR l.relkind = 'f') ORDER BY l.oid LIMIT 1),
                   coalesce(c.relhassubclass AND c.relkind <> 'p', false)
            FROM (VALUES (1)) AS one
            LEFT JOIN pg_publication p ON p.pubname = %s
            LEFT JOIN pg_class c ON c.oid = to_regclass(%s)
            """,
            publication,
            table,
        )[0]
        named = KINDS.get(kind, "no table") if oid is not None else KINDS["r"]
        return PublishedTable(
            exists, oid, kind == "p", covered, inserts, via_root, entry, stamp or "", named, not_logged or "", below
        )

    def column_types(self, table: str) -> dict[str, int]:
        """Column name -> type OID, in the table's order; empty when there is no such table."""
        return dict(
            self.rows(
                "SELECT attname::text, atttypid::int8 FROM pg_attribute"
                f" WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND {READABLE} ORDER BY attnum",
                table,
            )
        )

    def column_definitions(self, table: str) -> list[tuple[Any, ...]]:
        """In the table's order: name, type OID and modifier below all domains, whether it is NOT NULL, the default's
        expression, whether the type is a domain, the OID of a list's items or 0, the name of their type or of its own,
        and the labels of an enum (a list, or None).
        """
        return self.rows(
            'WITH RECURSIVE found (attnum, name, type, modifier, not_null, "default", is_domain) AS ('
            "SELECT attnum, attname::text, atttypid, atttypmod, attnotnull, pg_get_expr(adbin, adrelid), false"
            " FROM pg_attribute LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)"
            f" WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND {READABLE}"
            " UNION ALL SELECT attnum, name, typbasetype, CASE WHEN modifier = -1 THEN typtypmod ELSE modifier END,"
            ' not_null OR typnotnull AND NOT is_domain, "default", true'
            " FROM found JOIN pg_type ON oid = type WHERE typtype = 'd')"
            ' SELECT name, type::int8, modifier, not_null, "default", is_domain, coalesce(items.oid, 0)::int8,'
            " coalesce(items.typname, pg_type.typname)::text, (SELECT array_agg(enumlabel::text ORDER BY enumsortorder)"
            " FROM pg_enum WHERE enumtypid = coalesce(items.oid, pg_type.oid))"
            " FROM found JOIN pg_type ON pg_type.oid = type LEFT JOIN pg_type AS items ON items.typarray = pg_type.oid"
            " WHERE pg_type.typtype <> 'd' ORDER BY attnum",
            table,
        )

    def refuse_standby(self) -> None:
        """Retryable on a standby: it may be promoted, or the next host of the DSN may be the primary."""
        if self.in_recovery():
            raise is_a_standby()

    def refuse_another_server(self, other: connect.Backend) -> None:
        """Disconnected unless `other`, which serves another connection, is a process of this server.

        One DSN may lead to two servers: several hosts, a name with several addresses, a load balancer whose check
        flaps. Answers of one server say nothing about another, even if both are the same system and timeline.
        """
        found = self.rows(
            "SELECT 1 FROM pg_stat_activity"  # the time is hidden from a role that is another one there
            " WHERE pid = %s AND coalesce((extract(epoch FROM backend_start) * 1000000)::int8 = %s, true)",
            other.pid,
            other.started,
        )
        if not found:
            here = connect.backend(self.connection).address
            raise Disconnected(
                f"the DSN leads to two servers: one connection ended on {other.address} (PID {other.pid}), the next on"
                f" {here}, which has no such process; nothing is read until both end on the primary"
            )

    def refuse_synchronous(self, walsender_pid: int) -> None:
        """Fatal if commits would wait for this relay, now or once it has caught up (guarantees A38); Disconnected if
        this server has no such walsender.
        """
        state, deadline = "async", monotonic() + 2.0
        while state == "async" and monotonic() < deadline:
            query = "SELECT sync_state, reply_time IS NULL FROM pg_stat_replication WHERE pid = %s"
            found = self.rows(query, walsender_pid)
            if not found:
                raise Disconnected(f"the server has no walsender with PID {walsender_pid}: the stream is gone")
            state, too_early = found[0]
            if state is None or not too_early:  # hidden from a role without pg_read_all_stats; or it is known, which it
                break  # is before a walsender takes the first status update
            sleep(0.005)
        if state in ("sync", "quorum", "potential"):
            raise Fatal(
                f"PostgreSQL treats walrelay as a synchronous standby (sync_state is {state}): while the broker is"
                " away every COMMIT of the cluster would hang",
                hint="Name the real standbys in synchronous_standby_names instead of '*', or give walrelay another"
                " application_name in the DSN.",
                page="server",
            )


def _slot(row: dict[str, Any]) -> Slot:
    """What an earlier server does not know is None, or false."""
    members: dict[str, Any] = {name: row.get(name) for name in Slot._fields}
    for name in ("restart_lsn", "confirmed_flush_lsn"):
        members[name] = LSN.parse(row[name]) if row[name] else None
    members.update(name=row["slot_name"], failover=bool(row.get("failover")), two_phase=bool(row.get("two_phase")))
    return Slot(**members)
