"""What somebody has to know of a database who is asked for help: no row of the outbox, no message, no secret."""

from collections.abc import Mapping
from typing import Any

from walrelay.errors import WalrelayError
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.slot_records import slot_origin
from walrelay.wiring import Wiring

_SETTINGS = (
    "hot_standby_feedback, idle_replication_slot_timeout, logical_decoding_work_mem, max_replication_slots,"
    " max_slot_wal_keep_size, max_wal_senders, max_wal_size, server_encoding, server_version, sync_replication_slots,"
    " synchronized_standby_slots, synchronous_commit, synchronous_standby_names, track_commit_timestamp, wal_level,"
    " wal_sender_timeout"
)

# The names are SQL's own: what this server does not have, or this role may not see, is said in its place.
_QUESTIONS = {
    "server": "SELECT version(), pg_is_in_recovery() AS standby, pg_postmaster_start_time() AS started",
    "settings": f"SELECT name, setting, unit FROM pg_settings WHERE name = ANY (string_to_array('{_SETTINGS}', ', '))",
    "slots": "SELECT * FROM pg_replication_slots ORDER BY slot_name",
    "replication": "SELECT pid, application_name, client_addr, state, sent_lsn, flush_lsn, backend_start"
    " FROM pg_stat_replication",
    "publications": "SELECT * FROM pg_publication ORDER BY pubname",
    "published_tables": "SELECT pubname, schemaname, tablename FROM pg_publication_tables ORDER BY 1, 2, 3",
    "columns": "SELECT attname AS column, format_type(atttypid, atttypmod) AS type, attnotnull AS not_null"
    " FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
    "table": "SELECT relkind, relispartition, reltuples, pg_total_relation_size(oid) AS bytes,"
    " (SELECT count(*) FROM pg_partition_tree(oid)) AS partitions FROM pg_class WHERE oid = to_regclass(%s)",
    "vacuum": "SELECT n_live_tup, n_dead_tup, last_vacuum, last_autovacuum FROM pg_stat_all_tables"
    " WHERE relid = to_regclass(%s)",
    "transactions": "SELECT count(*) AS open, max(clock_timestamp() - xact_start) AS oldest FROM pg_stat_activity"
    " WHERE backend_xid IS NOT NULL",
    "walrelay.positions": "SELECT slot_name, timeline, lsn, commit_lsn FROM walrelay.positions ORDER BY slot_name",
    "walrelay.dead_letters": "SELECT slot_name, sink, status, error, count(*), min(first_at) AS first,"
    " max(last_at) AS last FROM walrelay.dead_letters GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
    "walrelay.replays": "SELECT slot_name, count(*), min(begun_at) AS first FROM walrelay.replays GROUP BY 1",
}


def database_facts(wiring: Wiring) -> Mapping[str, Any]:
    """Rows as objects, by what they are about."""
    with Catalog(wiring.dsn) as catalog:
        origin = slot_origin(catalog, wiring.slot)
        made = None if origin is None else origin._asdict()
        answers = {name: _answer(catalog, question, wiring.table) for name, question in _QUESTIONS.items()}
        return answers | {"made by init": made}


def _answer(catalog: Catalog, question: str, table: str) -> Any:
    try:
        rows = catalog.rows(f"SELECT to_jsonb(answer) FROM ({question}) AS answer", *[table] * question.count("%s"))
    except WalrelayError as error:
        return {"error": str(error)}
    return [row[0] for row in rows]
