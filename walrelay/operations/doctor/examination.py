"""The examination of slot, publication, table, role and server: the questions, their order, the commands that ask them.

`walrelay doctor` asks all of them. Each command asks those that concern it, and so cannot disagree with the doctor: a
problem of a question in _REFUSED ends the command with the doctor's words and fix, one in _TOLD is reported. (A running
relay checks again and again that the outbox is published, see walrelay.source.slot_source.)
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Literal, TypeAlias

from walrelay.errors import Fatal, NotConnected, Retryable
from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor import marks, publication, relays, replication, rows, server, slot, table, writers
from walrelay.operations.doctor.expected import Expected, expected, problem, warning
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.failures import Denied, first_line
from walrelay.publish.expiry import duration
from walrelay.source.lag import lag_seconds
from walrelay.wiring import Wiring

Question: TypeAlias = Callable[[Catalog, Expected], Iterator[Finding]]

# Each question of a chain presupposes the ones before it: after a problem the rest of the chain is not asked, because
# the answers would be wrong.
_FIRST: tuple[Question, ...] = (server.version, server.primary)
_CHAINS: tuple[tuple[str, tuple[Question, ...]], ...] = (
    ("server", (server.upstream_fixes,)),
    ("server", (server.wal_level,)),
    ("output plugin", (replication.allowed, replication.installed, replication.encoding, replication.partitions)),
    ("replication", (replication.role, server.senders, replication.connection)),
    ("limits", (server.slots,)),
    ("limits", (server.sender_timeout,)),
    ("limits", (server.kept_wal,)),
    ("limits", (server.idle_slots,)),
    ("synchronous", (server.standby_names,)),
    ("table", (table.schema, table.rights)),
    ("table", (table.exists, table.kind, table.persistence, table.partitions, table.updates)),
    ("table", (rows.inheritance,)),
    ("table", (rows.swallowed,)),
    ("table", (table.columns, table.generated, table.headers, table.types, table.binary)),
    ("marks", (marks.marks,)),
    (
        "publication",
        (
            publication.exists,
            publication.covers,
            publication.operations,
            publication.rows,
            publication.columns,
            publication.unchanged,
        ),
    ),
    ("slot", (slot.lead,)),
    ("slot", (slot.exists, slot.readable, slot.moved, slot.reader, publication.changes)),
    ("slot", (slot.retained,)),
    ("pause", (relays.table, relays.paused)),
    ("activity", (relays.activity,)),
    ("dead letters", (relays.letters_of_others,)),
    ("failover", (slot.failover_slot, slot.ahead)),
    ("failover", (slot.standbys,)),
    ("failover", (slot.synchronised,)),
    ("writers", (writers.open_transactions,)),
    ("made by init", (writers.current,)),
    ("writers", (writers.messages,)),
)
"""And the subject of the finding if a question of the chain cannot be asked."""

_ANOTHER_SUBJECT: Mapping[Question, str] = {server.senders: "limits", publication.changes: "before publication"}

Command: TypeAlias = Literal["init", "run", "tail", "follow", "status"]
"""`follow` is `walrelay tail --follow`, which makes a slot of its own."""

_SERVER: tuple[Question, ...] = (
    server.version,
    server.wal_level,
    replication.allowed,
    replication.installed,
    replication.encoding,
    replication.role,
    table.schema,
)
_TABLE: tuple[Question, ...] = (table.kind, table.persistence, replication.partitions)

# The catalog has today's table, the WAL earlier rows: even if the columns do not fit now, a relay may have to publish
# earlier rows, and ends at the first that does not fit. So this is only reported at the start.
_COLUMNS: tuple[Question, ...] = (table.columns, table.generated, publication.columns)

# Other rows are events, so no command stops for these.
_NO_EVENTS: tuple[Question, ...] = (rows.inheritance, rows.swallowed)
_PUBLICATION: tuple[Question, ...] = (
    publication.exists,
    publication.covers,
    publication.operations,
    publication.rows,
    publication.unchanged,
)

BY_ANOTHER_ROLE = ("role", "privileges")
"""Findings about the role: another role may run the SQL of `walrelay init --dry-run`."""

_REFUSED: Mapping[Command, Collection[Question]] = {
    "init": {
        *_SERVER,
        *_TABLE,
        *_COLUMNS,
        server.primary,
        server.standby_names,
        server.slots,
        publication.changes,
    },
    "run": {*_SERVER, *_TABLE, table.rights, publication.rows, server.standby_names},
    "tail": {*_SERVER, server.primary},
    "follow": {*_SERVER, server.primary, server.senders, server.standby_names},
    "status": {server.version},
}
_TOLD: Mapping[Command, Collection[Question]] = {
    "init": (),
    "run": (*_COLUMNS, *_NO_EVENTS),
    "tail": {table.exists, *_TABLE, *_COLUMNS, *_NO_EVENTS, *_PUBLICATION},
    "follow": {table.exists, *_TABLE, *_COLUMNS, *_NO_EVENTS, *_PUBLICATION},
    "status": {
        *_SERVER,
        table.exists,
        *_TABLE,
        *_COLUMNS,
        *_NO_EVENTS,
        *_PUBLICATION,
        slot.readable,
        slot.exists,
        publication.changes,
        server.standby_names,
    },
}


def refuse(catalog: Catalog, wiring: Wiring, command: Command, *, but: Collection[str] = ()) -> None:
    """Fatal, with the doctor's words and fix, for the first problem that prevents the command; `but`: subjects to
    ignore.
    """
    for finding in _of(_REFUSED[command], catalog, expected(wiring)):
        if finding.subject not in but:
            raise Fatal(f"{finding.subject}: {finding.detail}", hint=finding.fix, page="server")


def refuse_connection(wiring: Wiring, cause: NotConnected) -> None:
    """Fatal where a process's first replication connection was refused for a reason that no retry cures: by the
    server's message, where it is known, or by questions over an ordinary connection, which depend on no language.
    """
    if cause.final:
        raise Fatal(str(cause), hint=cause.hint, page="server") from cause
    try:
        with Catalog(wiring.dsn) as catalog:
            for question in (replication.role, replication.pooler):
                for finding in question(catalog, expected(wiring)):
                    if finding.verdict == "problem":
                        raise Fatal(f"{finding.subject}: {finding.detail}", hint=finding.fix, page="server") from cause
    except Retryable:
        return  # no ordinary connection either


def told(catalog: Catalog, wiring: Wiring, command: Command) -> Iterator[Finding]:
    """Problems that do not stop the command, but whose consequences it shows or will meet."""
    yield from _of(_TOLD[command], catalog, expected(wiring))


def no_events(catalog: Catalog, wiring: Wiring) -> list[str]:
    """Rows that no slot delivers, each with its fix, for commands that read the table: its other rows are events."""
    return [f"{each.detail}: {each.fix}" for each in _of(_NO_EVENTS, catalog, expected(wiring))]


def _of(questions: Collection[Question], catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The problems; raises if the connection breaks."""
    for chain in (_FIRST, *(chain for _, chain in _CHAINS)):
        wanted = [place for place, question in enumerate(chain) if question in questions]
        for question in chain[: max(wanted, default=-1) + 1]:
            try:
                problems = [each for each in question(catalog, expected) if each.verdict == "problem"]
            except Denied:
                break  # no problem in itself; `walrelay doctor` has the GRANT
            if question in questions:
                yield from problems
            if problems:
                break  # the next questions presuppose it


def examine(wiring: Wiring, arguments: str = "") -> Iterator[Finding]:
    """Every finding about database and broker, in the order of the questions. Does not raise for what it finds.
    `arguments`: what names settings file and relay in commands, as in ` -c other.yaml --relay orders`.
    """
    yield from examine_database(expected(wiring, arguments))
    try:
        for finding in wiring.sink.examine(wiring.rules.topics):
            yield _of_this_relay(finding, arguments)
        yield from _expiry(wiring)
        if wiring.position.place == "topic":
            yield from wiring.sink.examine_positions()
    except Fatal as error:
        yield Finding("sink", "problem", str(error), error.hint)
    yield from wiring.rules.examine_schemas()


def _expiry(wiring: Wiring) -> Iterator[Finding]:
    """Whether events wait that are older than their topic keeps messages."""
    if not wiring.sink.may_expire:
        return
    try:
        with Catalog(wiring.dsn) as catalog:
            slot = catalog.slot(wiring.slot)
            messages = wiring.outbox.prefix is not None
            lag = slot and lag_seconds(catalog, slot, wiring.publication, messages=messages)
        found = wiring.sink.expiry(wiring.rules.topics) if lag else {}
    except (Retryable, Fatal):
        return  # there is a finding about that
    for topic, each in found.items():
        if lag and lag > each.seconds:
            detail = (
                f"deletes messages {duration(each.seconds)} after their own time, and the oldest event that waits is"
                f" {duration(lag)} old: it is gone as soon as it is published"
            )
            yield warning(f"topic {topic}", detail, each.fix)


def _of_this_relay(finding: Finding, arguments: str) -> Finding:
    """Adds settings file and relay to a command of walrelay in the fix: a sink does not know it."""
    command, newline, rest = finding.fix.partition("\n")
    if not command.startswith("walrelay "):
        return finding
    return finding._replace(fix=f"{command}{arguments}{newline}{rest}")


def examine_database(expected: Expected) -> Iterator[Finding]:
    try:
        catalog = Catalog(expected.dsn)
    except (Retryable, Fatal) as cause:
        yield replication.failed(expected, cause)
        return
    with catalog:
        yield replication.made(catalog)
        if (yield from _chain("server", _FIRST, catalog, expected)):
            for subject, chain in _CHAINS:
                if not catalog.connection.closed:  # lost meanwhile: one finding is enough
                    yield from _chain(subject, chain, catalog, expected)


def _chain(
    subject: str, questions: tuple[Question, ...], catalog: Catalog, expected: Expected
) -> Generator[Finding, None, bool]:
    """Yields the findings up to the first problem; returns whether there was none."""
    for question in questions:
        good = True
        for finding in _asked(_ANOTHER_SUBJECT.get(question, subject), question, catalog, expected):
            yield finding
            good &= finding.verdict != "problem"
        if not good:
            return False
    return True


def _asked(subject: str, question: Question, catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    try:
        yield from question(catalog, expected)
    except Denied as cause:
        yield warning(subject, f"cannot be asked: {first_line(cause)}", _monitor(catalog))
    except (Retryable, Fatal) as cause:
        yield problem(subject, f"cannot be asked: {first_line(cause)}", expected.walrelay("doctor"))


def _monitor(catalog: Catalog) -> str:
    return f"GRANT pg_monitor TO {identifier(catalog.connection.info.user)};"
