"""What `walrelay init` makes and `walrelay drop` removes: schema objects, publication, then the slot.

The publication is committed before the slot is made: pgoutput looks it up as it was at each point of the WAL, and
what was written before it existed would stop the stream, or since PostgreSQL 18 be passed over (PITFALLS A18).
"""

from collections.abc import Iterator
from typing import NamedTuple

import psycopg

from walrelay.ddl import script
from walrelay.errors import Fatal, Retryable
from walrelay.identifiers import identifier
from walrelay.source import connect, functions
from walrelay.source.backfill_progress import Scope, refusal, refuse_unfinished_backfill, unfinished
from walrelay.source.catalog import Catalog, Slot
from walrelay.source.days import NewDays, coming, partitions, refuse_days
from walrelay.source.dead_letters.writing import present
from walrelay.source.failures import failure, first_line, slot_lost
from walrelay.source.missing import made, missing
from walrelay.source.noting import remember
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
    max_message_bytes: int = 1_000_000
    days: NewDays | None = None  # the outbox is to have a partition for each day


class Step(NamedTuple):
    """One object: whether it is there, and the SQL that makes it. `optional`: init goes on without it."""

    what: str
    present: bool
    sql: str
    optional: bool = False


def plan(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """The steps in order, each with whether it is done already. Fatal where a step would hide a loss."""
    slot = catalog.slot(wanted.slot)
    refuse_unfinished_backfill(catalog, wanted.slot)
    _refuse_loss(catalog, wanted, slot)
    return [*surroundings(catalog, wanted), Step(f"slot {wanted.slot}", slot is not None, _slot(catalog, wanted))]


def plan_backfill(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """As `plan`, for a slot that is made while the rows in the table are published: it has no SQL of its own."""
    slot = catalog.slot(wanted.slot)
    if (progress := unfinished(catalog, wanted.slot)) is not None:
        if progress.scope.command != Scope().command:
            raise refusal(progress)
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
    return [*surroundings(catalog, wanted), Step(f"slot {wanted.slot}", False, _by_replication(wanted))]


def surroundings(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """Everything but the slot."""
    table = wanted.table
    if wanted.days is not None:
        refuse_days(catalog, table, wanted.plugin)
    new_table = wanted.days.outbox() if wanted.days else script("outbox", table=table)
    steps = [
        Step("schema walrelay", _schema_exists(catalog), script("schema")),
        Step("table walrelay.dead_letters", present(catalog), script("dead_letters")),
        Step(f"table {table}", _table_exists(catalog, wanted), new_table),
        *_functions(catalog, wanted),
    ]
    if wanted.days is not None and _table_exists(catalog, wanted):
        missing_days = "".join(wanted.days.day(day) for day in coming(partitions(catalog, table).days))
        steps.append(Step("partitions of the coming days", not missing_days, missing_days))
    if wanted.publication is not None:
        steps.append(_publication(catalog, wanted, wanted.publication))
    return steps


def apply(catalog: Catalog, wanted: Wanted, steps: list[Step], *, patience: float) -> Iterator[tuple[Step, str]]:
    """Makes what is missing, one step after the other, and tells what came of each: "present", "created", or why an
    optional one was left out. `patience`: seconds to wait for open transactions when the slot is made.
    """
    connect.limit(catalog.connection, patience)
    slot = f"slot {wanted.slot}"
    made_here = any(step.what == slot and not step.present for step in steps)  # of another nothing is known
    xmin = catalog.value("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8") if made_here else None
    for step in steps:
        if step.present:
            yield step, "present"
            continue
        try:
            catalog.connection.execute(step.sql.encode())
            yield step, "created"
        except psycopg.errors.QueryCanceled as cause:
            raise blocked(catalog, step.what, patience) from cause
        except (psycopg.OperationalError, psycopg.InterfaceError) as cause:
            raise Retryable(f"{step.what} could not be made: {first_line(cause)}") from cause
        except psycopg.Error as cause:
            if not step.optional:
                raise _not_made(step, cause, wanted) from cause
            yield step, f"left out: {first_line(cause)}"
    now = catalog.published(wanted.publication or "", wanted.table)
    before = catalog.noted(wanted.slot) if wanted.publication is not None else None
    mended = any(step.what == f"publication {wanted.publication}" and not step.present for step in steps)
    remember(catalog, wanted.slot, wanted.table, now.seen, xmin, mended=mended)
    if before is not None and (change := now.since(before, wanted.publication or "", wanted.table)):
        yield Step("the outbox", True, ""), f"was not published all the time: {change}; look after rows of then"


def drop(catalog: Catalog, slot: str, publication: str | None) -> Iterator[tuple[str, str]]:
    """Removes the slot and the publication, never the table; tells what came of each."""
    found = drop_slot(catalog, slot)
    if catalog.value("SELECT to_regclass('walrelay.slots')") is not None:
        catalog.connection.execute("DELETE FROM walrelay.slots WHERE slot_name = %s", (slot,))
    yield f"slot {slot}", "dropped" if found else "was not there"
    if publication is not None:
        there = catalog.value("SELECT 1 FROM pg_publication WHERE pubname = %s", publication)
        catalog.connection.execute(f"DROP PUBLICATION IF EXISTS {identifier(publication)}".encode())
        yield f"publication {publication}", "dropped" if there else "was not there"


def drop_slot(catalog: Catalog, slot: str) -> bool:
    """Removes the slot; whether there was one. Fatal if somebody reads it."""
    found = catalog.slot(slot)
    if found is not None and found.active_pid is not None:
        raise Fatal(f"slot {slot!r} is in use by PID {found.active_pid}", hint="Stop the relay first, then drop again.")
    if found is not None:
        catalog.rows("SELECT pg_drop_replication_slot(%s)", slot)
    return found is not None


def _refuse_loss(catalog: Catalog, wanted: Wanted, slot: Slot | None) -> None:
    """A slot that was made and is gone, or is of no more use, is never made again as if nothing had happened."""
    if slot is None:
        if made(catalog, wanted.slot) is not None:
            raise missing(catalog, wanted.slot)
    elif slot.wal_status == "lost" or slot.invalidation_reason:
        raise slot_lost(wanted.slot, slot.invalidation_reason or "wal_status is lost")
    elif slot.plugin != wanted.plugin or slot.database != catalog.value("SELECT current_database()"):
        raise Fatal(
            f"slot {slot.name!r} is there already, for plugin {slot.plugin} in database {slot.database}",
            hint="Give source.slot another name, or correct source.plugin and the DSN's database.",
        )


def _schema_exists(catalog: Catalog) -> bool:
    """With the columns and tables that it did not have at first."""
    query = "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('walrelay.slots') AND attname = ANY (%s)"
    columns = ["publication_stamp", "created_xmin", "backfill", "published_from"]
    complete = catalog.value(query, columns) == len(columns)
    return complete and catalog.value("SELECT to_regclass('walrelay.positions')") is not None


def _table_exists(catalog: Catalog, wanted: Wanted) -> bool:
    return catalog.value("SELECT to_regclass(%s)", wanted.table) is not None


def _functions(catalog: Catalog, wanted: Wanted) -> list[Step]:
    """Optional: writers may do without, and with other columns than ours some cannot be made."""
    scripts = functions.scripts(wanted.table, wanted.columns, wanted.prefix, wanted.max_message_bytes)
    return [
        Step(f"function walrelay.{name}", functions.present(catalog, name), sql, optional=True)
        for name, sql in scripts.items()
    ]


def _publication(catalog: Catalog, wanted: Wanted, name: str) -> Step:
    published = catalog.published(name, wanted.table)
    what, quoted = f"publication {name}", identifier(name)
    if not published.exists:
        return Step(what, False, script("publication", publication=quoted, table=wanted.table))
    mend = []
    if not published.inserts or (published.partitioned and not published.via_root):
        mend.append(f"ALTER PUBLICATION {quoted} SET (publish = 'insert', publish_via_partition_root = true);")
    if not published.covered and not (published.partitioned and not published.via_root):
        mend.append(f"ALTER PUBLICATION {quoted} ADD TABLE {wanted.table};")
    return Step(what, not mend, "\n".join(mend) + "\n")


def _slot(catalog: Catalog, wanted: Wanted) -> str:
    arguments = f"{literal(wanted.slot)}, {literal(wanted.plugin)}"
    _refuse_old_server(catalog, wanted)
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
        "SELECT pid, coalesce(application_name, ''), state, round(extract(epoch FROM now() - xact_start))"
        " FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5"
    )
    listed = "; ".join(f"PID {pid} {name!r} {state}, open for {age} s" for pid, name, state, age in writers)
    return Fatal(
        f"{what} was not made within {patience:g} s: it waits for open transactions ({listed or 'none seen now'})",
        hint="End those transactions (SELECT pg_terminate_backend(PID)), or give `walrelay init --timeout` more time;"
        " running it again goes on where it stopped.",
    )


def _not_made(step: Step, cause: psycopg.Error, wanted: Wanted) -> Fatal:
    if step.what.startswith("slot "):
        found = failure(cause.sqlstate, first_line(cause), slot=wanted.slot, publication=wanted.publication or "")
        hint = found.hint if isinstance(found, Fatal) else ""
        if cause.sqlstate == "55000":
            hint = "ALTER SYSTEM SET wal_level = logical; then restart PostgreSQL."
        return Fatal(f"{step.what} could not be made: {first_line(cause)}", hint=hint or "Run `walrelay doctor`.")
    return Fatal(
        f"{step.what} could not be made: {first_line(cause)}",
        hint="`walrelay init --dry-run` prints the SQL; a role with more rights can run it, then init again.",
    )
