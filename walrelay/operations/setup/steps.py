"""What `walrelay init` makes: schema objects, publication, then the slot.

The publication is committed before the slot is made: pgoutput looks it up as it was at each point of the WAL, and
what was written before it existed would stop the stream, or since PostgreSQL 18 be skipped (guarantees A18).
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from walrelay.ddl import script
from walrelay.dead_letters.store import edits_are_kept, present
from walrelay.errors import Fatal
from walrelay.identifiers import identifier
from walrelay.postgres.catalog import Catalog, Slot
from walrelay.postgres.publications import PublishedTable
from walrelay.postgres.role_checks import message_rights
from walrelay.postgres.slot_records import missing_slot, schema_is_current, slot_origin
from walrelay.source.slot_source import usable_slot
from walrelay.table import functions
from walrelay.table.backfill_journal import (
    Scope,
    refuse_unfinished_backfill,
    unfinished_backfill_error,
    unfinished_progress,
)
from walrelay.table.days import COLUMN, NewDays, days_to_make, partitions, refuse_days
from walrelay.wire.commands import create_slot, literal
from walrelay.wiring import Wiring

Kind = Literal[
    "schema",
    "table",
    "index",
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
    "removed",
    "left as it is",
    "left out",
    "was not published all the time",
    "has earlier rows that the clean-up will not delete",
]


_LETTER_INDEXES = tuple(f"dead_letters_{name}" for name in ("order", "record", "key", "waiting", "topics"))


class SetupStep(NamedTuple):
    """One object: whether it exists, and the SQL that makes it. `optional`: init goes on without it. `verdict`: what
    the SQL does. `note`: why it is left as it is, although the settings ask for another.
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


def plan(catalog: Catalog, wiring: Wiring, *, partitioned: bool = False) -> list[SetupStep]:
    """The steps in order, and which are done already. Fatal where a step would hide a loss. `partitioned`: the outbox
    is to have a partition for each day.
    """
    slot = catalog.slot(wiring.slot)
    refuse_unfinished_backfill(catalog, wiring.slot)
    _refuse_loss(catalog, wiring, slot)
    if slot is None:
        _refuse_old_server(catalog, wiring)
    steps = surroundings(catalog, wiring, partitioned=partitioned)
    return [*steps, SetupStep("slot", wiring.slot, slot is not None, _slot(wiring))]


def plan_backfill(catalog: Catalog, wiring: Wiring, *, partitioned: bool = False) -> list[SetupStep]:
    """`plan` for a slot that is made while the rows of the table are published: it has no SQL of its own."""
    slot = catalog.slot(wiring.slot)
    if (progress := unfinished_progress(catalog, wiring.slot)) is not None:
        if progress.scope.command != Scope().command:
            raise unfinished_backfill_error(catalog, wiring.slot, progress)
    else:
        _refuse_loss(catalog, wiring, slot)
        if slot is not None:
            raise Fatal(
                f"slot {wiring.slot!r} is there already: what it streams would be published from the table as well",
                hint="To publish the rows from before the slot: stop the relay, run `walrelay drop`, then `walrelay"
                " init --backfill`. Rows that the relay has already published will come again, with their ids. If"
                " events are missing since the slot was lost or made again: `walrelay recover`.",
            )
    _refuse_old_server(catalog, wiring)
    steps = surroundings(catalog, wiring, partitioned=partitioned)
    return [*steps, SetupStep("slot", wiring.slot, False, _by_replication(wiring))]


def surroundings(catalog: Catalog, wiring: Wiring, *, partitioned: bool = False) -> list[SetupStep]:
    """All steps but the slot's."""
    table, days = wiring.table, _days(wiring) if partitioned else None
    if days is not None:
        refuse_days(catalog, table, wiring.plugin)
    new_table = days.outbox() if days else script("outbox", table=table)
    steps = [
        SetupStep("schema", "walrelay", schema_is_current(catalog), script("schema")),
        *_dead_letters(catalog),
        *(
            SetupStep("table", f"walrelay.{name}", _table_is_there(catalog, f"walrelay.{name}"), script(name))
            for name in ("replays", "relays", "activity", "audit_log")
        ),
        _jobs(catalog),
        SetupStep("table", table, _table_is_there(catalog, table), new_table),
        *_functions(catalog, wiring),
        *_message_rights(catalog, wiring),
    ]
    if days is not None and _table_is_there(catalog, table):
        missing_days = "".join(days.day(day) for day in days_to_make(partitions(catalog, table).days))
        steps.append(SetupStep("partitions of the coming days", "", not missing_days, missing_days))
    if wiring.publication is not None:
        steps.append(_publication(catalog, wiring, wiring.publication))
    return steps


def _dead_letters(catalog: Catalog) -> Iterator[SetupStep]:
    """What an earlier version made is brought up to date if that can be; without it all but edits work, more slowly."""
    there, current = present(catalog), edits_are_kept(catalog)
    verdict: Verdict = "updated" if there else "created"
    yield SetupStep("table", "walrelay.dead_letters", current, script("dead_letters"), optional=there, verdict=verdict)
    for name in _LETTER_INDEXES:
        valid = catalog.value("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", f"walrelay.{name}")
        sql = script(name)
        if there:  # while the relay writes; one that was given up halfway is not valid
            made = sql.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY")
            sql = made if valid is None else f"REINDEX INDEX CONCURRENTLY walrelay.{name};\n"
        yield SetupStep("index", f"walrelay.{name}", bool(valid), sql, optional=True)
    if catalog.value("SELECT to_regclass('walrelay.dead_letters_open')") is not None:  # too narrow for a long key
        dropped = "DROP INDEX CONCURRENTLY IF EXISTS walrelay.dead_letters_open;\n"
        yield SetupStep("index", "walrelay.dead_letters_open", False, dropped, optional=True, verdict="removed")


def _refuse_loss(catalog: Catalog, wiring: Wiring, slot: Slot | None) -> None:
    """Fatal for a slot that was lost: to make it again without a recovery would hide the loss."""
    if slot is None:
        if slot_origin(catalog, wiring.slot) is not None:
            raise missing_slot(catalog, wiring.slot)
    else:
        usable_slot(slot, wiring.slot, wiring.plugin, catalog.database)


def _days(wiring: Wiring) -> NewDays:
    outbox = wiring.outbox
    if outbox.columns.created_at != COLUMN:
        raise Fatal(
            f"a partitioned outbox has its days by the column {COLUMN}, the settings name {outbox.columns.created_at}",
            hint=f"outbox.columns.created_at: {COLUMN}",
        )
    return NewDays(outbox.schema, outbox.table)


def _table_is_there(catalog: Catalog, table: str) -> bool:
    return catalog.value("SELECT to_regclass(%s)", table) is not None


def _jobs(catalog: Catalog) -> SetupStep:
    """A table of a version before results were stored is updated."""
    found = _table_is_there(catalog, "walrelay.jobs")
    current = found and "result" in catalog.column_types("walrelay.jobs")
    return SetupStep("table", "walrelay.jobs", current, script("jobs"), verdict="updated" if found else "created")


def _functions(catalog: Catalog, wiring: Wiring) -> list[SetupStep]:
    """Optional: writers may do without them, and with other columns some cannot be made."""
    scripts = functions.function_scripts(wiring)
    id_column = wiring.emit_columns["id"]
    unfit = functions.type_without_uuid(catalog, wiring.table, id_column)
    steps = []
    verdict: Verdict
    for each in functions.examine_functions(catalog, wiring.table, wiring.slot, scripts):
        done, verdict, note = each.present, "updated" if each.differs else "created", each.note
        if note:
            verdict = "left as it is"
        elif unfit and not done and not each.differs and each.name in ("emit", "emit_and_delete"):
            done, verdict = True, "left out"
            note = f"{id_column!r} is of type {unfit} and takes no UUID; writers insert their rows themselves"
        steps.append(
            SetupStep("function", f"walrelay.{each.name}", done, each.sql, optional=True, verdict=verdict, note=note)
        )
    return steps


def _message_rights(catalog: Catalog, wiring: Wiring) -> list[SetupStep]:
    """Where logical messages are events, a role that may write them may publish; by default every role may."""
    if wiring.outbox.prefix is None:
        return []
    rights = message_rights(catalog, wiring.writers.roles)
    return [SetupStep("rights to write logical messages", "", rights.given, rights.sql)]


def _publication(catalog: Catalog, wiring: Wiring, name: str) -> SetupStep:
    published = catalog.published(name, wiring.table)
    quoted = identifier(name)
    if not published.exists:
        return SetupStep("publication", name, False, script("publication", publication=quoted, table=wiring.table))
    mend = []
    if not published.inserts or (published.partitioned and not published.via_root):
        mend.append(f"ALTER PUBLICATION {quoted} SET (publish = 'insert', publish_via_partition_root = true);")
    if not published.covered and not _covered_by_its_root(catalog, name, published):
        mend.append(f"ALTER PUBLICATION {quoted} ADD TABLE {wiring.table};")
    return SetupStep("publication", name, not mend, "\n".join(mend) + "\n")


def _covered_by_its_root(catalog: Catalog, name: str, published: PublishedTable) -> bool:
    """Whether publish_via_partition_root is all that is missing: now the publication shows the table's partitions."""
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


def _slot(wiring: Wiring) -> str:
    arguments = f"{literal(wiring.slot)}, {literal(wiring.plugin)}"
    if wiring.streaming.failover:
        arguments += ", failover => true"
    return f"SELECT pg_create_logical_replication_slot({arguments});\n"


def _by_replication(wiring: Wiring) -> str:
    """The SQL comment of `init --dry-run` for the slot, because only a replication connection exports a snapshot."""
    made = create_slot(wiring.slot, wiring.plugin, failover=wiring.streaming.failover)
    return f"-- on a replication connection, then the rows that its snapshot shows are published: {made}\n"


def _refuse_old_server(catalog: Catalog, wiring: Wiring) -> None:
    if wiring.streaming.failover and catalog.server_version < 170000:
        raise Fatal(
            "source.failover needs PostgreSQL 17 or later",
            hint="Set source.failover to false; after a failover of an older server a missing slot is an error.",
        )
