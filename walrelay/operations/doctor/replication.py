"""Whether the relay may open the replication connection it needs: the role's right, and the connection itself."""

from collections.abc import Iterator

from walrelay.errors import Retryable
from walrelay.model import Finding
from walrelay.operations.doctor import limits
from walrelay.operations.doctor.expected import Expected, ok, problem, warning
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.dsn import cure, refusal
from walrelay.postgres.failures import first_line, server_message
from walrelay.postgres.pooler import direct_dsn, has_pooler
from walrelay.postgres.rights import grant_statements
from walrelay.postgres.role_checks import rights_to_replicate

_SUBJECT = "replication connection"


def role(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    name = catalog.connection.info.user
    if missing := rights_to_replicate(catalog):
        yield problem("role", f"{name} has no REPLICATION attribute", grant_statements(missing))
    else:
        yield ok("role", f"{name} may replicate")


def connection(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Opens one and asks IDENTIFY_SYSTEM: only that tells what pg_hba.conf and poolers make of it."""
    if limits.free_senders(catalog) == 0:
        return  # the relay that runs now has the last one, which proves that it can be had
    pooled = has_pooler(catalog.connection)
    try:
        system = _identify(expected.dsn)
    except Retryable as cause:
        if pooled:
            yield problem(
                _SUBJECT,
                f"the DSN leads to a connection pooler, which refuses: {refusal(first_line(cause))}",
                direct_dsn(catalog.connection, expected.dsn),
            )
        else:
            yield problem(_SUBJECT, refusal(first_line(cause)), cure(str(cause), expected.dsn).fix)
        return
    if pooled:
        yield warning(
            _SUBJECT,
            "goes through a connection pooler, whose limits cut the stream",
            direct_dsn(catalog.connection, expected.dsn),
        )
    else:
        yield ok(_SUBJECT, system)


def pooler(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """As `connection`, as far as a pooler is to blame, which no retry cures."""
    if has_pooler(catalog.connection):
        yield from connection(catalog, expected)


def _identify(dsn: str) -> str:
    replicating = connect.replication(dsn)
    try:
        result = connect.answer(replicating, "IDENTIFY_SYSTEM")
        if result.status != connect.Status.TUPLES_OK:  # a pooler that passes over `replication` makes an ordinary one
            raise Retryable(f"IDENTIFY_SYSTEM: {server_message(result)}")
        identifier, timeline = [(result.get_value(0, column) or b"").decode() for column in (0, 1)]
        return f"system {identifier}, timeline {timeline}"
    finally:
        replicating.close()
