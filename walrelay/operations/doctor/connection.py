"""The ordinary connection: made or not, and what to do about it."""

from walrelay.errors import Fatal, NotConnected
from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, problem
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import cure, refusal
from walrelay.postgres.failures import first_line
from walrelay.postgres.pooler import SharedSession


def made(catalog: Catalog) -> Finding:
    info = catalog.connection.info
    version = info.parameter_status("server_version") or str(info.server_version)
    return ok("connection", f"PostgreSQL {version.split()[0]} at {info.host}:{info.port}/{info.dbname} as {info.user}")


def failed(expected: Expected, cause: Exception) -> Finding:
    if isinstance(cause, SharedSession):
        return problem("connection", str(cause), cause.hint)
    if isinstance(cause, Fatal):
        return problem("connection", str(cause), "source.dsn: postgresql://user@host/db")
    fix = cause.hint if isinstance(cause, NotConnected) else cure(first_line(cause), expected.dsn).fix
    return problem("connection", refusal(first_line(cause)), fix)
