"""Which questions are asked, in which order, and what becomes of one that cannot be answered."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import psycopg

from walrelay.errors import Retryable
from walrelay.model import Finding
from walrelay.source.catalog import Catalog
from walrelay.source.doctor import (
    connection,
    limits,
    output_plugin,
    publication,
    replication,
    server,
    slot,
    synchronous,
    table,
    writers,
)
from walrelay.source.doctor.expected import Expected, problem, warning
from walrelay.source.failures import first_line

Question: TypeAlias = Callable[[Catalog, Expected], Iterator[Finding]]

# Each question of a chain presupposes the ones before it: after a problem the rest of the chain cannot be asked, and
# says nothing rather than something wrong.
_FIRST: tuple[Question, ...] = (server.version, server.primary)
_CHAINS: tuple[tuple[Question, ...], ...] = (
    (server.upstream_fixes,),
    (server.wal_level,),
    (output_plugin.allowed, output_plugin.installed),
    (replication.role, limits.senders, replication.connection),
    (limits.slots,),
    (limits.sender_timeout,),
    (limits.kept_wal,),
    (limits.idle_slots,),
    (synchronous.standby_names,),
    (table.schema,),
    (table.exists, table.persistence),
    (table.columns, table.generated, table.headers, table.binary),
    (publication.exists, publication.covers, publication.operations, publication.rows, publication.columns),
    (slot.exists, slot.readable, slot.reader),
    (slot.retained,),
    (slot.failover,),
    (writers.open_transactions,),
)


def examine(expected: Expected) -> Iterator[Finding]:
    """Every finding about the database, in the order of the questions. Never raises for what it finds there."""
    try:
        catalog = Catalog(expected.dsn)
    except (Retryable, psycopg.Error) as cause:
        yield connection.failed(expected, cause)
        return
    with catalog:
        yield connection.made(catalog)
        if (yield from _chain(_FIRST, catalog, expected)):
            for chain in _CHAINS:
                yield from _chain(chain, catalog, expected)


def _chain(questions: tuple[Question, ...], catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The findings of the questions up to the first problem; returns whether there was none."""
    for question in questions:
        good = True
        for finding in _asked(question, catalog, expected):
            yield finding
            good &= finding.verdict != "problem"
        if not good:
            return False
    return True


def _asked(question: Question, catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    try:
        yield from question(catalog, expected)
    except psycopg.errors.InsufficientPrivilege as cause:
        yield warning(
            question.__name__.replace("_", " "),
            f"cannot be asked: {first_line(cause)}",
            "run the doctor as a role that may see it",
        )
    except (Retryable, psycopg.Error) as cause:
        yield problem(
            question.__name__.replace("_", " "), f"cannot be asked: {first_line(cause)}", expected.walrelay("doctor")
        )
