"""The one examination of slot, publication, table, role and server: which questions are asked, in which order, by which
command, and what becomes of one that cannot be answered.

`walrelay doctor` asks them all. The commands ask those that concern them, and so cannot disagree with it: a problem of
a question in _REFUSED ends the command with the doctor's words and fix, one of a question in _TOLD is told. (That the
outbox is published is looked at again and again while a relay runs, see walrelay.source.slot_source.)
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Literal, TypeAlias

from walrelay.errors import Fatal, NotConnected, Retryable
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor import (
    before_publication,
    connection,
    failover,
    limits,
    made_by_init,
    output_plugin,
    publication,
    replication,
    server,
    slot,
    synchronous,
    table,
    writers,
)
from walrelay.operations.doctor.expected import Expected, problem, warning
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied, first_line

Question: TypeAlias = Callable[[Catalog, Expected], Iterator[Finding]]

# Each question of a chain presupposes the ones before it: after a problem the rest of the chain cannot be asked, and
# says nothing rather than something wrong.
_FIRST: tuple[Question, ...] = (server.version, server.primary)
_CHAINS: tuple[tuple[Question, ...], ...] = (
    (server.upstream_fixes,),
    (server.wal_level,),
    (output_plugin.allowed, output_plugin.installed, output_plugin.encoding, output_plugin.partitions),
    (replication.role, limits.senders, replication.connection),
    (limits.slots,),
    (limits.sender_timeout,),
    (limits.kept_wal,),
    (limits.idle_slots,),
    (synchronous.standby_names,),
    (table.schema, table.rights),
    (table.exists, table.kind, table.persistence, table.partitions, table.updates),
    (table.columns, table.generated, table.headers, table.binary),
    (
        publication.exists,
        publication.covers,
        publication.operations,
        publication.rows,
        publication.columns,
        publication.unchanged,
    ),
    (slot.lead,),
    (slot.exists, slot.readable, slot.reader, before_publication.changes),
    (slot.retained,),
    (failover.slot, failover.ahead),
    (failover.standbys,),
    (failover.synchronised,),
    (writers.open_transactions,),
    (made_by_init.current,),
    (writers.messages,),
)


Command: TypeAlias = Literal["init", "run", "tail", "follow", "status"]
"""`follow` is `walrelay tail --follow`, which makes a slot of its own."""

_SERVER: tuple[Question, ...] = (
    server.version,
    server.wal_level,
    output_plugin.allowed,
    output_plugin.installed,
    output_plugin.encoding,
    replication.role,
    table.schema,
)
_TABLE: tuple[Question, ...] = (table.kind, table.persistence, output_plugin.partitions)

# The catalog has the table of now, the WAL the rows of then: where the columns do not fit, a relay may still have to
# publish what was written before, and ends at the first row that does not fit. So it is told at the start, no more.
_COLUMNS: tuple[Question, ...] = (table.columns, table.generated, publication.columns)
_PUBLICATION: tuple[Question, ...] = (
    publication.exists,
    publication.covers,
    publication.operations,
    publication.unchanged,
)

_REFUSED: Mapping[Command, Collection[Question]] = {
    "init": {
        *_SERVER,
        *_TABLE,
        *_COLUMNS,
        server.primary,
        synchronous.standby_names,
        limits.slots,
        before_publication.changes,
    },
    "run": {*_SERVER, *_TABLE, table.rights, synchronous.standby_names},
    "tail": {*_SERVER, server.primary},
    "follow": {*_SERVER, server.primary, limits.senders, synchronous.standby_names},
    "status": {server.version},
}
_TOLD: Mapping[Command, Collection[Question]] = {
    "init": (),
    "run": _COLUMNS,
    "tail": {table.exists, *_TABLE, *_COLUMNS, *_PUBLICATION},
    "follow": {table.exists, *_TABLE, *_COLUMNS, *_PUBLICATION},
    "status": {
        *_SERVER,
        table.exists,
        *_TABLE,
        *_COLUMNS,
        *_PUBLICATION,
        slot.readable,
        slot.exists,
        before_publication.changes,
        synchronous.standby_names,
    },
}


def refuse(catalog: Catalog, expected: Expected, command: Command, *, but: Collection[str] = ()) -> None:
    """Fatal, with the doctor's words and its fix, for the first problem that stands in the command's way; `but`: the
    subjects that somebody else sees to.
    """
    for finding in _of(_REFUSED[command], catalog, expected):
        if finding.subject not in but:
            raise Fatal(f"{finding.subject}: {finding.detail}", hint=finding.fix)


def refuse_connection(expected: Expected, cause: NotConnected) -> None:
    """Fatal where the first replication connection of a process was refused by what no retry cures: the server's own
    words, where they are known, or what the ordinary connection tells, which does not depend on a language.
    """
    if cause.final:
        raise Fatal(str(cause), hint=cause.hint) from cause
    try:
        with Catalog(expected.dsn) as catalog:
            for question in (replication.role, replication.pooler):
                for finding in question(catalog, expected):
                    if finding.verdict == "problem":
                        raise Fatal(f"{finding.subject}: {finding.detail}", hint=finding.fix) from cause
    except Retryable:
        return  # not even an ordinary one


def told(catalog: Catalog, expected: Expected, command: Command) -> Iterator[Finding]:
    """The problems that do not stop the command, but whose consequences it shows, or will run into."""
    yield from _of(_TOLD[command], catalog, expected)


def _of(questions: Collection[Question], catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The problems; a connection that breaks while they are asked raises."""
    for chain in (_FIRST, *_CHAINS):
        wanted = [place for place, question in enumerate(chain) if question in questions]
        for question in chain[: max(wanted, default=-1) + 1]:
            try:
                problems = [each for each in question(catalog, expected) if each.verdict == "problem"]
            except Denied:
                break  # not a problem in itself: a question of the doctor's, which has the GRANT
            if question in questions:
                yield from problems
            if problems:
                break  # what comes after it presupposes it


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
