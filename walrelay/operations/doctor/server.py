"""Version, role in the cluster, and wal_level."""

from collections.abc import Iterator

from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, problem, warning
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import without_password

_OLDEST = 140000

# ALTER PUBLICATION while a transaction writes could lose that transaction's later rows; the first fix could end the
# decoding for want of memory, and the second came with the minors of August 2025 (PITFALLS A20).
_MENDED = {14: 140019, 15: 150014, 16: 160010, 17: 170006}


def version(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if catalog.server_version < _OLDEST:
        number = catalog.value("SHOW server_version")
        yield problem("server version", f"{number} is too old: walrelay needs 14 or later", "pg_upgrade --help")


def primary(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The slot and all the rest is the primary's; a standby of PostgreSQL 16 could decode, walrelay does not yet."""
    if not catalog.in_recovery():
        yield ok("primary", "the server is no standby")
        return
    sender = catalog.rows("SELECT sender_host, sender_port::text FROM pg_stat_wal_receiver WHERE sender_host <> ''")
    host, port = sender[0] if sender else ("the.primary", "5432")
    dsn = without_password(expected.dsn, host=host, port=port, target_session_attrs="read-write")
    yield problem("primary", "the server is a standby; the relay needs the primary", f"source.dsn: {dsn}")


def upstream_fixes(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    major = catalog.server_version // 10000
    mended = _MENDED.get(major, 0)
    if catalog.server_version < mended:
        yield warning(
            "minor version",
            f"before {major}.{mended % 10000} rows can get lost when a publication is altered while transactions write",
            f"apt-get install --only-upgrade postgresql-{major}",
        )


def wal_level(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    rows = catalog.rows(
        "SELECT name, setting, pending_restart FROM pg_settings WHERE name IN ('wal_level', 'effective_wal_level',"
        " 'rds.logical_replication', 'cloudsql.logical_decoding')"
    )
    level, pending = next((setting, pending) for name, setting, pending in rows if name == "wal_level")
    names = {name for name, _, _ in rows}
    if level == "logical":
        yield ok("wal_level", "logical")
    elif level == "replica" and "effective_wal_level" in names:
        yield ok("wal_level", "replica; this version raises it by itself when a logical slot is made")
    elif pending:
        yield problem("wal_level", f"still {level}: the new value waits for a restart", 'pg_ctl restart -D "$PGDATA"')
    else:
        yield problem("wal_level", f"{level}; a logical slot needs logical", _raise_wal_level(names))


def _raise_wal_level(settings: set[str]) -> str:
    """Managed services have a switch of their own for it."""
    if "rds.logical_replication" in settings:
        parameter = "ParameterName=rds.logical_replication,ParameterValue=1,ApplyMethod=pending-reboot"
        return (
            f"aws rds modify-db-parameter-group --parameters {parameter} --db-parameter-group-name ...   # then reboot"
        )
    if "cloudsql.logical_decoding" in settings:
        return "gcloud sql instances patch INSTANCE --database-flags=cloudsql.logical_decoding=on"
    return "ALTER SYSTEM SET wal_level = logical;  -- then restart PostgreSQL"
