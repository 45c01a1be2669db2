"""The publication: what it covers, and what was committed before it."""

from collections.abc import Iterator
from typing import NamedTuple

from walrelay.identifiers import identifier
from walrelay.model import Finding
from walrelay.operations.doctor.expected import Expected, ok, problem, warning
from walrelay.operations.doctor.table import REPLICATED_KINDS, ExaminedTable, look, look_at_columns
from walrelay.operations.doctor.writers import init_command
from walrelay.postgres.catalog import READABLE, Catalog
from walrelay.postgres.failures import NoSuchObject, Notice, PostgresError, about_a_standby
from walrelay.postgres.slot_records import noted_publication, slot_origin
from walrelay.table import row_filter
from walrelay.wire.commands import pgoutput_options

_SUBJECT = "publication"
_ROW = (
    "to_jsonb(t) - 'attnames' || jsonb_build_object('attnames',"
    f" (SELECT jsonb_agg(attname) FROM unnest(t.attnames) AS attname WHERE {READABLE}))"
)


class Publication(NamedTuple):
    """A row of pg_publication, and how it covers the outbox: by its own name or by its partitions' names.

    `filter` and `columns` are known since PostgreSQL 15, and only for a table that is published by its own name.
    """

    operations: list[str]
    via_root: bool
    covered: bool
    filter: str | None
    columns: list[str] | None


def _look(catalog: Catalog, expected: Expected, table: ExaminedTable) -> Publication:
    operations, via_root, partitions = catalog.rows(
        """
        SELECT array_remove(ARRAY[CASE WHEN pubinsert THEN 'insert' END, CASE WHEN pubupdate THEN 'update' END,
                                  CASE WHEN pubdelete THEN 'delete' END], NULL), pubviaroot,
               EXISTS (SELECT FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
                       JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
                       WHERE t.pubname = p.pubname AND c.oid IN (SELECT relid FROM pg_partition_tree(%s)))
        FROM pg_publication p WHERE pubname = %s
        """,
        table.oid,
        expected.publication,
    )[0]
    row = catalog.value(
        f"SELECT {_ROW if catalog.server_version >= 150000 else 'to_jsonb(t)'} FROM pg_publication_tables t"
        " WHERE pubname = %s AND schemaname = %s AND tablename = %s",
        expected.publication,
        expected.schema,
        expected.table,
    )
    covered = row is not None or (partitions and not via_root)
    row = row or {}
    return Publication(operations, via_root, covered, row.get("rowfilter"), row.get("attnames"))


def exists(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    if expected.publication is None:
        return
    name = expected.publication
    if not catalog.value("SELECT 1 FROM pg_publication WHERE pubname = %s", name):
        table = look(catalog, expected)
        late = [each.fix for each in changes(catalog, expected)]
        fix = late[0] if late else init_command(catalog, expected, owner_of=table.oid if table else None)
        yield problem(_SUBJECT, f"{name} does not exist", fix)


def covers(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    table = _replicated(catalog, expected)
    if table is None or expected.publication is None:
        return
    found, quoted = _look(catalog, expected, table), identifier(expected.publication)
    if not found.covered:
        yield problem(
            _SUBJECT,
            f"{expected.publication} does not have {expected.name}; rows committed meanwhile will never come",
            f"ALTER PUBLICATION {quoted} ADD TABLE {expected.outbox};",
        )
    elif table.kind == "p" and not found.via_root:
        yield problem(
            _SUBJECT,
            f"{expected.publication} has the partitions of {expected.name} under their own names",
            f"ALTER PUBLICATION {quoted} SET (publish_via_partition_root = true);",
        )
    else:
        yield ok(_SUBJECT, f"{expected.publication} has {expected.name}")


def unchanged(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Whether table and publication entry are those that `walrelay init` saw last (guarantees A19)."""
    if expected.publication is None or (seen := noted_publication(catalog, expected.slot)) is None:
        return
    if change := catalog.published(expected.publication, expected.outbox).since(
        seen, expected.publication, expected.name
    ):
        detail = f"{change}; rows committed in between may be missing: look for them before `walrelay init`"
        yield problem(_SUBJECT, detail, expected.walrelay("init"))


def operations(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Only inserts: publishing updates makes an UPDATE of a table without replica identity fail (A21)."""
    table = _replicated(catalog, expected)
    if table is None or expected.publication is None:
        return
    published = _look(catalog, expected, table).operations
    fix = f"ALTER PUBLICATION {identifier(expected.publication)} SET (publish = 'insert');"
    if "insert" not in published:
        yield problem(_SUBJECT, f"{expected.publication} does not publish inserts", fix)
    elif len(published) > 1:
        harm = "which the relay only skips" if table.identified else "and those statements of writers will fail"
        yield warning(_SUBJECT, f"{expected.publication} also publishes {' and '.join(published[1:])}, {harm}", fix)


def rows(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """The row filter. One that was made of rules must withhold nothing that the rules of today publish."""
    table = _replicated(catalog, expected)
    if table is None or expected.publication is None:
        return
    condition, name = _look(catalog, expected, table).filter, expected.publication
    if not condition:
        return
    if (withheld := row_filter.parsed(condition)) is None:
        detail = f"only rows with {condition} are published; all other rows never arrive"
        yield warning(_SUBJECT, detail, _published_whole(expected, name))
        return
    fix = expected.walrelay("init --push-down")
    if lost := row_filter.lost(withheld, expected.drops):
        rows = "; or ".join(map(row_filter.words, lost))
        detail = f"{name} withholds rows that no rule drops, so their events are lost: {rows}"
        yield problem(_SUBJECT, detail, fix)
        return
    columns = row_filter.columns_of(catalog, expected.outbox)
    drops = row_filter.settled(expected.drops, columns, catalog.server_encoding())
    if sent := row_filter.sent(withheld, drops):
        rules = ", ".join(drop.rule for drop in sent)
        detail = f"{name} could also withhold what the rules drop: {rules}"
        yield warning(_SUBJECT, detail, fix)
    else:
        yield ok(_SUBJECT, f"{name} withholds only rows that rules drop")


def columns(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """A column list hides other columns; since PostgreSQL 18 generated columns are hidden too, unless published."""
    table = _replicated(catalog, expected)
    if table is None or expected.publication is None:
        return
    published = _look(catalog, expected, table).columns
    there = look_at_columns(catalog, table)
    for name in expected.columns.values() if published is not None else ():
        if name in (published or ()) or name not in there:
            continue
        if not there[name].generated:
            fix = _published_whole(expected, expected.publication)
            yield problem(_SUBJECT, f"{expected.publication} hides column {name!r} by a column list", fix)
        elif there[name].generated == "s" and catalog.server_version >= 180000:
            fix = f"ALTER PUBLICATION {identifier(expected.publication)} SET (publish_generated_columns = stored);"
            yield problem(_SUBJECT, f"{expected.publication} leaves out {name!r}, a generated column", fix)


def _replicated(catalog: Catalog, expected: Expected) -> ExaminedTable | None:
    table = look(catalog, expected) if expected.publication is not None else None
    return table if table is not None and table.kind in REPLICATED_KINDS else None


def _published_whole(expected: Expected, publication: str) -> str:
    """The statements that publish every row and column. They avoid SET TABLE, which would remove other tables."""
    alter = f"ALTER PUBLICATION {identifier(publication)}"
    return f"BEGIN; {alter} DROP TABLE {expected.outbox}; {alter} ADD TABLE {expected.outbox}; COMMIT;"


_PEEK = """
    SELECT 1 FROM pg_logical_slot_peek_binary_changes(%s::name, NULL, %s, VARIADIC %s::text[]) LIMIT 1
"""
_SENT = 10_000  # what PostgreSQL 14 sends at most before the first change: it has a beginning and an end of empty
#                 transactions as well


def changes(catalog: Catalog, expected: Expected) -> Iterator[Finding]:
    """Whether the publication is older than the changes that wait in the slot. No catalog has its position. One from
    before the slot's catalog_xmin is old enough; for any other the server decodes up to the first transaction to send.
    """
    slot, name = catalog.slot_of_any_database(expected.slot), expected.publication
    if name is None or slot is None or slot.active_pid is not None:
        return  # a relay that reads the slot is past that point
    older = catalog.value(
        "SELECT age(p.xmin) > age(s.catalog_xmin) FROM pg_publication p, pg_replication_slots s"
        " WHERE p.pubname = %s AND s.slot_name = %s",
        name,
        slot.name,
    )
    if older or not _unreadable(catalog, slot.name, name):
        return
    missing = f"publication {name} {'does not exist' if older is None else f'is younger than slot {slot.name}'}"
    if slot_origin(catalog, slot.name) is not None:
        fix = expected.walrelay("recover --replace")
    else:
        both = f"{expected.walrelay('drop --yes')} && {expected.walrelay('init --backfill')}"
        fix = f"{both}   # makes both again, and publishes the rows that are in the table"
    yield problem(
        "slot",
        f"{missing}: changes that wait in the slot were made without it, and no server can decode them; the slot has"
        " to be made again. Events committed since it was made are still in the table",
        fix,
    )


def _unreadable(catalog: Catalog, slot: str, publication: str) -> bool:
    """PostgreSQL refuses at the first change; since 18 it warns, and skips the changes. Without an answer there is no
    finding: the server needs too long, or the role may not ask.
    """
    warned: list[str | None] = []
    connection, enough = catalog.connection, 1 if catalog.server_version >= 150000 else _SENT
    options = [text for option in pgoutput_options(publication, binary=False) for text in option]

    def heard(notice: Notice) -> None:
        if not about_a_standby(notice.message_primary or ""):  # which has that SQLSTATE as well
            warned.append(notice.sqlstate)

    connection.add_notice_handler(heard)
    try:
        connection.execute("SELECT set_config('client_min_messages', 'warning', false)")
        connection.execute(_PEEK, [slot, enough, options])
    except NoSuchObject:
        return True
    except PostgresError:
        pass
    finally:
        connection.remove_notice_handler(heard)
    return "55000" in warned
