"""Settings of every session that walrelay makes.

A role, a database, the server's file, the DSN and PGOPTIONS may set each of them, for purposes of others. They are set
here for ordinary and replication connections alike, and nowhere else but where a session needs another value. SET
rather than startup options: PGTZ and PGDATESTYLE in the environment would win over those, and poolers refuse them.
"""

# Names mean PostgreSQL's own functions and operators. Others in a schema of the role's search_path would run with the
# rights of the relay (CVE-2018-1058). pg_temp comes last, or it would come first.
PINNED = "search_path = pg_catalog, pg_temp"

# A time limit is for applications. Decoding a transaction is one transaction for the server, however large it is.
_LIMITS: tuple[tuple[int, str], ...] = (
    (170000, "transaction_timeout = 0"),
    (0, "statement_timeout = 0"),
    (0, "lock_timeout = 0"),
    (0, "idle_in_transaction_session_timeout = 0"),
    (140000, "idle_session_timeout = 0"),
)

# The text of a value depends on the session (guarantees A33), and so does SQL that the server prints: names of types,
# filters of a publication, bounds of a partition.
PRINTING = (
    "client_encoding = 'UTF8'",
    "DateStyle = 'ISO, MDY'",
    "IntervalStyle = 'postgres'",
    "TimeZone = 'UTC'",
    "extra_float_digits = 1",
    "bytea_output = 'hex'",
)
"""Settings that decide about the text of a value."""

_SQL = (
    "standard_conforming_strings = on",
    "quote_all_identifiers = off",
    "array_nulls = on",
    "transform_null_equals = off",
)

# Some hosts set the first while a disk is nearly full. What walrelay writes is small, and lets the server remove WAL.
_TRANSACTIONS = (
    "default_transaction_read_only = off",
    "default_transaction_isolation = 'read committed'",
    "default_transaction_deferrable = off",
    "exit_on_error = off",
)

# Costs of a role suit its own queries. Questions to the catalog take longer than they may where they are compiled, or
# where all plans cost the same.
_PLANNER = (
    "jit = off",
    "seq_page_cost = 1",
    "random_page_cost = 4",
    "cpu_tuple_cost = 0.01",
    "cpu_index_tuple_cost = 0.005",
    "cpu_operator_cost = 0.0025",
)

# Since PostgreSQL 18 a warning is the only sign that a publication is skipped (guarantees A18).
_WARNINGS = (
    "SELECT set_config('client_min_messages', 'warning', false)"
    " WHERE current_setting('client_min_messages') IN ('error', 'fatal', 'panic')"
)


def session(server_version: int) -> str:
    """The statements that make a session walrelay's own. The limits come first: they hold for these statements, too."""
    settings = (PINNED, *PRINTING, *_SQL, *_TRANSACTIONS, *_PLANNER)
    return "; ".join([without_limits(server_version), _WARNINGS, *(f"SET {each}" for each in settings)])


def without_limits(server_version: int) -> str:
    """The statements after which the server ends no statement, transaction or session for its age."""
    return "; ".join(f"SET {each}" for since, each in _LIMITS if server_version >= since)
