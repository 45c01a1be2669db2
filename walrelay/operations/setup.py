"""What `walrelay init` makes: schema objects, publication, then the slot.

The publication is committed before the slot is made: pgoutput looks it up as it was at each point of the WAL, and
what was written before it existed would stop the stream, or since PostgreSQL 18 be passed over (PITFALLS A18).
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from walrelay.ddl import script
from walrelay.dead_letters.store import present
from walrelay.errors import Fatal, Retryable
from walrelay.identifiers import identifier
from walrelay.postgres import connect
from walrelay.postgres.catalog import Catalog, PublishedTable, Slot, age
from walrelay.postgres.failures import PostgresError, StatementTimeout, connection_lost, first_line, of
from walrelay.postgres.locks import held, slot_lock
from walrelay.postgres.role_checks import NOT_OURS_TO_GIVE, message_rights, refuse_missing_rights, rights_to_replicate
from walrelay.postgres.slot_notes import note_publication
from walrelay.postgres.slot_records import (
    missing_rights_on_slots,
    missing_slot,
    noted_publication,
    schema_is_current,
    slot_origin,
)
from walrelay.source.slot_source import usable_slot
from walrelay.table import functions
from walrelay.table.backfill_journal import (
    Scope,
    refuse_unfinished_backfill,
    unfinished_backfill_error,
    unfinished_progress,
)
from walrelay.table.days import NewDays, days_to_make, partitions, refuse_days
from walrelay.table.replay_journal import replays_table_exists as replays_present
from walrelay.wire.commands import create_slot, literal


class Wanted(NamedTuple):
    """What a relay needs to be there. `columns` maps the arguments of walrelay.emit to columns of the outbox."""

    table: str  # quoted where it must be
    columns: dict[str, str]
    slot: str
    publication: str | None  # None for wal2json
    plugin: str
    failover: bool
    prefix: str | None = None  # of logical messages that are events
    writers: tuple[str, ...] = ()  # the roles that may write those
    max_message_bytes: int = 1_000_000
    days: NewDays | None = None  # the outbox is to have a partition for each day


Kind = Literal[
    "schema",
    "table",
    "function",
    "rights to write logical messages",
    "partitions of the coming days",
    "publication",
    "slot",
    "the outbox",
]
Verdict = Literal[
    "present",
    "created",
    "updated",
    "left as it is",
    "left out",
    "was not published all the time",
    "has rows of before that the clean-up will leave",
]


class Step(NamedTuple):
    """One object: whether it is there, and the SQL that makes it. `optional`: init goes on without it. `verdict`: what
    the SQL does. `note`: why it is left as it is, though the settings want another.
    """

    kind: Kind
    name: str
    present: bool
    sql: str
    optional: bool = False
    verdict: Verdict = "created"
    note: str = ""

    @property
    def what(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


class Outcome(NamedTuple):
    """What came of a step, and why it was not made where it was not."""

    verdict: Verdict
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.why}" if self.why else self.verdict


def plan(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """The steps in order, each with whether it is done already. Fatal where a step would hide a loss."""
    slot = catalog.slot(wanted.slot)
    refuse_unfinished_backfill(catalog, wanted.slot)
    _refuse_loss(catalog, wanted, slot)
    if slot is None:
        _refuse_old_server(catalog, wanted)
    return [*surroundings(catalog, wanted), Step("slot", wanted.slot, slot is not None, _slot(catalog, wanted))]


def plan_backfill(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """As `plan`, for a slot that is made while the rows in the table are published: it has no SQL of its own."""
    slot = catalog.slot(wanted.slot)
    if (progress := unfinished_progress(catalog, wanted.slot)) is not None:
        if progress.scope.command != Scope().command:
            raise unfinished_backfill_error(catalog, wanted.slot, progress)
    else:
        _refuse_loss(catalog, wanted, slot)
        if slot is not None:
            raise Fatal(
                f"slot {wanted.slot!r} is there already: what it streams would be published from the table as well",
                hint="To publish what the table holds from before the slot, stop the relay, `walrelay drop`, and then"
                " `walrelay init --backfill`: rows that the relay has published come again, with their ids. If events"
                " are missing since the slot was lost or made anew: `walrelay recover`.",
            )
    _refuse_old_server(catalog, wanted)
    return [*surroundings(catalog, wanted), Step("slot", wanted.slot, False, _by_replication(wanted))]


def surroundings(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """Everything but the slot."""
    table = wanted.table
    if wanted.days is not None:
        refuse_days(catalog, table, wanted.plugin)
    new_table = wanted.days.outbox() if wanted.days else script("outbox", table=table)
    steps = [
        Step("schema", "walrelay", schema_is_current(catalog), script("schema")),
        Step("table", "walrelay.dead_letters", present(catalog), script("dead_letters")),
        Step("table", "walrelay.replays", replays_present(catalog), script("replays")),
        Step("table", table, _table_exists(catalog, wanted), new_table),
        *_functions(catalog, wanted),
        *_message_rights(catalog, wanted),
    ]
    if wanted.days is not None and _table_exists(catalog, wanted):
        missing_days = "".join(wanted.days.day(day) for day in days_to_make(partitions(catalog, table).days))
        steps.append(Step("partitions of the coming days", "", not missing_days, missing_days))
    if wanted.publication is not None:
        steps.append(_publication(catalog, wanted, wanted.publication))
    return steps


def apply(catalog: Catalog, wanted: Wanted, steps: list[Step], *, patience: float) -> Iterator[tuple[Step, Outcome]]:
    """Makes what is missing, one step after the other, and tells what came of each. `patience`: seconds to wait for
    open transactions when the slot is made.
    """
    connect.set_statement_timeout(catalog.connection, patience)
    catalog.run("SET default_transaction_read_only = off")  # a database may have it: what is asked for here is to write
    with held(catalog, slot_lock(catalog, wanted.slot)):
        yield from _applied(catalog, wanted, steps, patience)


def _applied(catalog: Catalog, wanted: Wanted, steps: list[Step], patience: float) -> Iterator[tuple[Step, Outcome]]:
    refuse_missing_rights(
        catalog, missing_rights_on_slots(catalog, "INSERT", "UPDATE"), f"take note of slot {wanted.slot}"
    )
    new = {step.kind for step in steps if not step.present}
    made_here = "slot" in new  # of another nothing is known
    xmin = catalog.value("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8") if made_here else None
    for step in steps:
        if step.present:
            yield step, Outcome(step.verdict, step.note) if step.note else Outcome("present")
            continue
        if step.kind == "slot":
            needed = [*missing_rights_on_slots(catalog, "INSERT", "UPDATE"), *rights_to_replicate(catalog)]
            refuse_missing_rights(catalog, needed, f"make slot {wanted.slot}")
        try:
            catalog.connection.execute(step.sql.encode())
            yield step, Outcome(step.verdict)
        except StatementTimeout as cause:
            raise blocked(catalog, step.what, patience) from cause
        except PostgresError as cause:
            if connection_lost(cause):  # by SQLSTATE: psycopg's OperationalError has what no retry cures as well
                raise Retryable(f"{step.what} could not be made: {first_line(cause)}") from cause
            if not step.optional:
                raise _not_made(step, cause, wanted) from cause
            yield step, Outcome("left out", first_line(cause))
    now = catalog.published(wanted.publication or "", wanted.table)
    before = noted_publication(catalog, wanted.slot) if wanted.publication is not None else None
    lost = note_publication(catalog, wanted.slot, wanted.table, now.seen, xmin, mended="publication" in new)
    outbox = Step("the outbox", "", True, "")
    if before is not None and (change := now.since(before, wanted.publication or "", wanted.table)):
        yield outbox, Outcome("was not published all the time", f"{change}; look after rows of then")
    elif lost:
        yield outbox, Outcome("has rows of before that the clean-up will leave", "; ".join(lost))


def _refuse_loss(catalog: Catalog, wanted: Wanted, slot: Slot | None) -> None:
    """A slot that was made and is gone, or is of no more use, is never made again as if nothing had happened."""
    if slot is None:
        if slot_origin(catalog, wanted.slot) is not None:
            raise missing_slot(catalog, wanted.slot)
    else:
        usable_slot(slot, wanted.slot, wanted.plugin, catalog.database)


def _table_exists(catalog: Catalog, wanted: Wanted) -> bool:
    return catalog.value("SELECT to_regclass(%s)", wanted.table) is not None


def _functions(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """Optional: writers may do without, and with other columns than ours some cannot be made."""
    scripts = functions.function_scripts(wanted.table, wanted.columns, wanted.prefix, wanted.max_message_bytes)
    id_column = wanted.columns["id"]
    unfit = functions.type_without_uuid(catalog, wanted.table, id_column)
    steps = []
    verdict: Verdict
    for each in functions.examine_functions(catalog, wanted.table, wanted.slot, scripts):
        done, verdict, note = each.present, "updated" if each.differs else "created", each.note
        if note:
            verdict = "left as it is"
        elif unfit and not done and not each.differs and each.name in ("emit", "emit_and_delete"):
            done, verdict = True, "left out"
            note = f"{id_column!r} is of type {unfit} and takes no UUID; writers insert their rows themselves"
        steps.append(
            Step("function", f"walrelay.{each.name}", done, each.sql, optional=True, verdict=verdict, note=note)
        )
    return steps


def _message_rights(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """Where messages are events, who may write them publishes: PostgreSQL lets everybody."""
    if wanted.prefix is None:
        return []
    rights = message_rights(catalog, wanted.writers)
    return [Step("rights to write logical messages", "", rights.given, rights.sql)]


def _publication(catalog: Catalog, wanted: Wanted, name: str) -> Step:
    published = catalog.published(name, wanted.table)
    quoted = identifier(name)
    if not published.exists:
        return Step("publication", name, False, script("publication", publication=quoted, table=wanted.table))
    mend = []
    if not published.inserts or (published.partitioned and not published.via_root):
        mend.append(f"ALTER PUBLICATION {quoted} SET (publish = 'insert', publish_via_partition_root = true);")
    if not published.covered and not _covered_by_its_root(catalog, name, published):
        mend.append(f"ALTER PUBLICATION {quoted} ADD TABLE {wanted.table};")
    return Step("publication", name, not mend, "\n".join(mend) + "\n")


def _covered_by_its_root(catalog: Catalog, name: str, published: PublishedTable) -> bool:
    """Whether the partitioned table will be there by its own name as soon as it is published under that: now the
    publication shows its partitions.
    """
    if published.via_root or not published.partitioned:
        return False
    everything = catalog.value("SELECT puballtables FROM pg_publication WHERE pubname = %s", name)
    schemas = catalog.server_version >= 150000 and catalog.value(
        "SELECT 1 FROM pg_publication_namespace s JOIN pg_publication p ON p.oid = s.pnpubid"
        " JOIN pg_class c ON c.relnamespace = s.pnnspid WHERE p.pubname = %s AND c.oid = %s::oid",
        name,
        published.oid,
    )
    return bool(published.entry is not None or everything or schemas)


def _slot(catalog: Catalog, wanted: Wanted) -> str:
    arguments = f"{literal(wanted.slot)}, {literal(wanted.plugin)}"
    if wanted.failover:
        arguments += ", failover => true"
    return f"SELECT pg_create_logical_replication_slot({arguments});\n"


def _by_replication(wanted: Wanted) -> str:
    """For people: a snapshot is exported on a replication connection only."""
    made = create_slot(wanted.slot, wanted.plugin, failover=wanted.failover)
    return f"-- on a replication connection, then the rows that its snapshot shows are published: {made}\n"


def _refuse_old_server(catalog: Catalog, wanted: Wanted) -> None:
    if wanted.failover and catalog.server_version < 170000:
        raise Fatal(
            "source.failover needs PostgreSQL 17 or later",
            hint="Set source.failover to false; after a failover of an older server a missing slot is an error.",
        )


def blocked(catalog: Catalog, what: str, patience: float) -> Fatal:
    """Making a slot waits for all transactions that were writing when it began (PITFALLS A28)."""
    writers = catalog.rows(
        f"SELECT pid, coalesce(application_name, ''), state, round({age('xact_start')})"
        " FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5"
    )
    listed = "; ".join(f"PID {pid} {name!r} {state}, open for {seconds} s" for pid, name, state, seconds in writers)
    return Fatal(
        f"{what} was not made within {patience:g} s: it waits for open transactions ({listed or 'none seen now'})",
        hint="End those transactions (SELECT pg_terminate_backend(PID)), or give `walrelay init --timeout` more time;"
        " running it again goes on where it stopped.",
    )


def _not_made(step: Step, cause: PostgresError, wanted: Wanted) -> Fatal:
    if step.kind == "slot":
        found = of(cause, slot=wanted.slot, publication=wanted.publication or "")
        hint = found.hint if isinstance(found, Fatal) else ""
        return Fatal(f"{step.what} could not be made: {first_line(cause)}", hint=hint or "Run `walrelay doctor`.")
    if step.kind == "rights to write logical messages":
        return Fatal(f"{step.what} could not be made: {first_line(cause)}", hint=NOT_OURS_TO_GIVE)
    return Fatal(
        f"{step.what} could not be made: {first_line(cause)}",
        hint="`walrelay init --dry-run` prints the SQL; a role with more rights can run it, then init again.",
    )
