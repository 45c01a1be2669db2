"""What the server says of slots and their outboxes, as numbers: a few statements for all slots of a database."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from walrelay.dead_letters.counts import waiting
from walrelay.errors import WalrelayError
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.retained import slot_wal
from walrelay.postgres.slot_records import backfilled_rows
from walrelay.source.lag import lags
from walrelay.wiring import Wiring


class SlotFigures(NamedTuple):
    """Of one slot; None where the server does not say, or not to this role."""

    active: bool
    wal_status: str | None
    confirmed: str | None
    lag_bytes: int | None
    retained_bytes: int | None
    safe_bytes: int | None
    lag_seconds: float | None  # the age of the oldest event that waits; None while nothing reads the slot to its end
    dead_letters: int | None  # open ones
    outbox_bytes: int | None
    outbox_rows: int | None  # as PostgreSQL estimates it
    outbox_dead_rows: int | None
    backfill_rows: int | None = None  # that an unfinished backfill has published
    replays: int | None = None  # unfinished ones
    replay_rows: int | None = None  # that they have published


_TABLE = (
    "SELECT sum(pg_total_relation_size(part.oid))::int8, sum(n_live_tup)::int8, sum(n_dead_tup)::int8"
    " FROM (SELECT to_regclass(%s)::oid AS oid UNION SELECT relid FROM pg_partition_tree(to_regclass(%s))) AS part"
    " LEFT JOIN pg_stat_all_tables ON pg_stat_all_tables.relid = part.oid"
)

_READABLE = "SELECT coalesce(has_table_privilege(to_regclass(%s), 'SELECT'), false)"

_REPLAYS = (
    "SELECT slot_name::text, count(*), sum((progress ->> 'published')::int8)::int8 FROM walrelay.replays GROUP BY 1"
)


def figures(catalog: Catalog, relays: Sequence[Wiring]) -> dict[str, SlotFigures]:
    """By slot; one that is not there is left out. All `relays` are of the catalog's database."""
    tables = {table: _table(catalog, table) for table in {each.table for each in relays}}
    found = {}
    backfills = backfilled_rows(catalog)
    replays = {slot: told for slot, *told in _replays(catalog)}
    slots = slot_wal(catalog, [each.slot for each in relays])
    ages = lags(catalog, [*slots])
    for each in relays:
        if each.slot in slots:
            wal = slots[each.slot]
            found[each.slot] = SlotFigures(
                *wal,
                ages.get(each.slot),
                waiting(catalog, each.slot),
                *tables[each.table],
                backfills.get(each.slot),
                *replays.get(each.slot, (0, None)),
            )
    return found


def _table(catalog: Catalog, table: str) -> tuple[int | None, int | None, int | None]:
    try:
        return catalog.rows(_TABLE, table, table)[0]
    except WalrelayError:
        if catalog.usable:
            return None, None, None  # no right to see it, or an ALTER TABLE has it
        raise


def _replays(catalog: Catalog) -> list[tuple[Any, ...]]:
    """Nothing where this role may not read them: its server should not log an error for each question."""
    return catalog.rows(_REPLAYS) if catalog.value(_READABLE, "walrelay.replays") else []
