"""Which questions are asked, in which order, and what becomes of one that cannot be answered."""

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from walrelay.errors import Fatal, Retryable
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.source.catalog import Catalog, Denied
from walrelay.source.doctor import (
    connection,
    failover,
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
    (output_plugin.allowed, output_plugin.installed, output_plugin.suits),
    (replication.role, limits.senders, replication.connection),
    (limits.slots,),
    (limits.sender_timeout,),
    (limits.kept_wal,),
    (limits.idle_slots,),
    (synchronous.standby_names,),
    (table.schema,),
    (table.exists, table.persistence, table.partitions),
    (table.columns, table.generated, table.headers, table.binary),
    (
        publication.exists,
        publication.covers,
        publication.operations,
        publication.rows,
        publication.columns,
        publication.unchanged,
    ),
    (slot.exists, slot.readable, slot.reader),
    (slot.retained,),
    (failover.slot, failover.ahead),
    (failover.standbys,),
    (failover.synchronised,),
    (writers.open_transactions,),
)


def examine(expected: Expected) -> Iterator[Finding]:
    """Every finding about the database, in the order of the questions. Never raises for what it finds there."""
    try:
        catalog = Catalog(expected.dsn)
    except (Retryable, Fatal) as cause:
        yield connection.failed(expected, cause)
        return
    with catalog:
        yield connection.made(catalog)
        if (yield from _chain(_FIRST, catalog, expected)):
            for chain in _CHAINS:
                if not catalog.connection.closed:  # lost meanwhile: said once is enough
                    yield from _chain(chain, catalog, expected)


def _chain(questions: tuple[Question, ...], catalog: Catalog, expected: Expected) -> Generator[Finding, None, bool]:
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
    except Denied as cause:
        yield warning(_subject(question), f"cannot be asked: {first_line(cause)}", _monitor(catalog))
    except (Retryable, Fatal) as cause:
        yield problem(_subject(question), f"cannot be asked: {first_line(cause)}", expected.walrelay("doctor"))


def _monitor(catalog: Catalog) -> str:
    return f"GRANT pg_monitor TO {identifier(catalog.connection.info.user)};"


def _subject(question: Question) -> str:
    return question.__module__.rpartition(".")[2].replace("_", " ")
