"""Slots, publications, tables and roles as people have them: what was done to a database, and what comes of it.

`ready` says whether an event that is written now gets through as things are; `cured`, whether it does after
`walrelay init` has run. In SQL `{slot}` is the name of the slot and of the database.
"""

from typing import Any, NamedTuple

EVENT = "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload) VALUES ('order', '1', 'placed', '{}')"
COLUMNS = "id uuid DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text, type text"
REST = "payload jsonb, headers jsonb, topic text, tenant_id text, created_at timestamptz DEFAULT now()"
TABLE = f"CREATE TABLE outbox ({COLUMNS}, {REST})"
PUBLICATION = "CREATE PUBLICATION walrelay FOR TABLE outbox WITH (publish = 'insert')"
SLOT = "SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"
WAL2JSON_SLOT = "SELECT pg_create_logical_replication_slot('{slot}', 'wal2json')"
BUSINESS = "CREATE TABLE business (n int)"
PREPARED = "BEGIN; INSERT INTO business VALUES (1); PREPARE TRANSACTION '{slot}'; COMMIT PREPARED '{slot}'"
PARTITIONED = (
    f"CREATE TABLE outbox ({COLUMNS}, {REST}) PARTITION BY LIST (aggregate_type);"
    " CREATE TABLE orders PARTITION OF outbox FOR VALUES IN ('order')"
)
FOREIGN = "CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing"


_DEFAULTS: dict[str, Any] = {}


class Situation(NamedTuple):
    """`sql` is run after `walrelay init`, or by hand before it where `by_hand`; then the `event` is written. A `role`
    is made with these attributes, and is walrelay's.
    """

    name: str
    ready: bool
    sql: str = ""
    by_hand: bool = False
    cured: bool = True
    event: str = EVENT
    settings: dict[str, Any] = _DEFAULTS
    role: str | None = None
    waits: bool = False  # the relay does not refuse, but waits for it to pass
    by_fix: bool = True  # what the doctor says is enough; else the writers have to do something
    says: str = ""  # in what the doctor complains of
    encoding: str = "UTF8"
    newest: bool = False  # on the newest PostgreSQL as well
    only_newest: bool = False
    oldest: bool = False  # on the oldest as well
    told: bool = False  # by every command, and none is stopped: other events get through


def _made(name: str, ready: bool, sql: str, **more: Any) -> Situation:
    return Situation(name, ready, sql, by_hand=True, **more)


def _table(name: str, columns: str, ready: bool = True, **more: Any) -> Situation:
    return _made(name, ready, f"CREATE TABLE outbox ({columns}); {PUBLICATION}; {SLOT}", **more)


W2J: dict[str, Any] = {"source": {"plugin": "wal2json"}}
NO_EVENT = ""

SLOTS = [
    Situation("init has just run", True, newest=True),
    Situation("nothing is there", False, by_hand=True, event=NO_EVENT, newest=True),
    _made("all made by hand in the right order", True, f"{TABLE}; {PUBLICATION}; {SLOT}", newest=True),
    _made(
        "a slot before its publication, and nothing was written", True, f"{TABLE}; {SLOT}; {PUBLICATION}", newest=True
    ),
    _made(
        "a slot before its publication, and something was written",
        False,
        f"{TABLE}; {BUSINESS}; {SLOT}; INSERT INTO business VALUES (1); {PUBLICATION}",
        cured=False,
        says="younger than slot",
        newest=True,
    ),
    _made(
        "a slot without a publication, and something was written",
        False,
        f"{TABLE}; {BUSINESS}; {SLOT}; INSERT INTO business VALUES (1)",
        cured=False,
        says="no server can decode them",
        newest=True,
    ),
    _made("a slot and nothing else", False, SLOT, event=NO_EVENT),
    _made(
        "a slot with two_phase",
        False,
        f"{TABLE}; {BUSINESS}; {PUBLICATION};"
        f" SELECT pg_create_logical_replication_slot('{{slot}}', 'pgoutput', false, true); {PREPARED}",
        cured=False,
        says="two_phase",
        newest=True,
    ),
    _made(
        "a slot of wal2json with two_phase",
        True,
        f"{TABLE}; {BUSINESS};"
        f" SELECT pg_create_logical_replication_slot('{{slot}}', 'wal2json', false, true); {PREPARED}",
        settings=W2J,
    ),
    _made(
        "prepared transactions and an ordinary slot", True, f"{TABLE}; {BUSINESS}; {PUBLICATION}; {SLOT}; {PREPARED}"
    ),
    _made(
        "a slot of wal2json", False, f"{TABLE}; {PUBLICATION}; {WAL2JSON_SLOT}", cured=False, says="made for wal2json"
    ),
    _made(
        "a slot of test_decoding",
        False,
        f"{TABLE}; {PUBLICATION}; SELECT pg_create_logical_replication_slot('{{slot}}', 'test_decoding')",
        cured=False,
        says="made for test_decoding",
    ),
    _made(
        "a slot of pgoutput where the settings say wal2json",
        False,
        f"{TABLE}; {PUBLICATION}; {SLOT}",
        settings=W2J,
        cured=False,
        says="source.plugin: pgoutput",
    ),
    _made(
        "a physical slot",
        False,
        f"{TABLE}; {PUBLICATION}; SELECT pg_create_physical_replication_slot('{{slot}}')",
        cured=False,
        says="physical slot",
    ),
    Situation(
        "a slot that was dropped", False, "SELECT pg_drop_replication_slot('{slot}')", cured=False, says="is gone"
    ),
    Situation(
        "a slot that was dropped and made again by hand", True, f"SELECT pg_drop_replication_slot('{{slot}}'); {SLOT}"
    ),
    Situation(
        "a slot that was moved by hand",
        True,
        "SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())",
    ),
    Situation("a second slot beside it", True, "SELECT pg_create_logical_replication_slot('{slot}_2', 'pgoutput')"),
    Situation(
        "the settings name another slot, which is not there",
        False,
        settings={"source": {"slot": "another_one"}},
        event=NO_EVENT,
    ),
    _made("a slot of wal2json by hand", True, f"{TABLE}; {WAL2JSON_SLOT}", settings=W2J),
    Situation("wal2json, init has just run", True, settings=W2J),
    Situation("wal2json in format 1", True, settings={"source": {"plugin": "wal2json", "wal2json_format": 1}}),
    Situation("pgoutput in text", True, settings={"source": {"binary": False}}),
    Situation(
        "a failover slot that the server does not know",
        True,
        by_hand=True,
        sql=f"{TABLE}; {PUBLICATION}; {SLOT}",
        settings={"source": {"failover": True}},
    ),
]

PUBLICATIONS = [
    _made(
        "for all tables",
        True,
        f"{TABLE}; CREATE PUBLICATION walrelay FOR ALL TABLES WITH (publish = 'insert'); {SLOT}",
        newest=True,
    ),
    _made(
        "for all tables of the schema",
        True,
        f"{TABLE}; CREATE PUBLICATION walrelay FOR TABLES IN SCHEMA public; {SLOT}",
        newest=True,
    ),
    Situation("with another table", True, f"{BUSINESS}; ALTER PUBLICATION walrelay ADD TABLE business"),
    Situation(
        "with updates and deletions", True, "ALTER PUBLICATION walrelay SET (publish = 'insert, update, delete')"
    ),
    Situation("without inserts", False, "ALTER PUBLICATION walrelay SET (publish = 'update')", newest=True),
    Situation("with nothing", False, "ALTER PUBLICATION walrelay SET (publish = '')"),
    Situation(
        "without inserts for a while",
        True,
        "ALTER PUBLICATION walrelay SET (publish = 'update'); ALTER PUBLICATION walrelay SET (publish = 'insert')",
    ),
    Situation("without the table", False, "ALTER PUBLICATION walrelay DROP TABLE outbox", newest=True),
    Situation(
        "without the table for a while",
        False,
        "ALTER PUBLICATION walrelay DROP TABLE outbox; ALTER PUBLICATION walrelay ADD TABLE outbox",
        says="came back",
    ),
    Situation("dropped, and nothing was written", False, "DROP PUBLICATION walrelay", event=NO_EVENT, newest=True),
    Situation(
        "dropped, and an event was written", False, "DROP PUBLICATION walrelay", cured=False, newest=True, oldest=True
    ),
    Situation("owned by another", True, "CREATE ROLE {slot}_owner; ALTER PUBLICATION walrelay OWNER TO {slot}_owner"),
    Situation("another one for the same table", True, "CREATE PUBLICATION other FOR TABLE outbox"),
    _made(
        "with a row filter that lets the event through",
        True,
        f"{TABLE}; CREATE PUBLICATION walrelay FOR TABLE outbox WHERE (type = 'placed') WITH (publish = 'insert');"
        f" {SLOT}",
    ),
    _made(
        "with a list of the columns that are needed",
        True,
        f"{TABLE}; CREATE PUBLICATION walrelay FOR TABLE outbox (id, aggregate_type, aggregate_id, type, payload,"
        f" headers, topic) WITH (publish = 'insert'); {SLOT}",
        newest=True,
    ),
    _made(
        "with a list of columns that hides the payload",
        False,
        f"{TABLE}; CREATE PUBLICATION walrelay FOR TABLE outbox (id, aggregate_type, aggregate_id, type, headers,"
        f" topic) WITH (publish = 'insert'); {SLOT}",
        cured=False,
        says="by a column list",
        newest=True,
    ),
    _made(
        "of a partitioned table by its root",
        True,
        f"{PARTITIONED}; CREATE PUBLICATION walrelay FOR TABLE outbox WITH (publish = 'insert',"
        f" publish_via_partition_root); {SLOT}",
        newest=True,
    ),
    _made("of a partitioned table by its partitions", False, f"{PARTITIONED}; {PUBLICATION}; {SLOT}", newest=True),
    _made(
        "of a partition only",
        False,
        f"{PARTITIONED}; CREATE PUBLICATION walrelay FOR TABLE orders WITH (publish = 'insert'); {SLOT}",
    ),
    Situation(
        "the settings name one that is not there",
        False,
        settings={"source": {"publication": "Walrelay"}},
        event=NO_EVENT,
        cured=False,  # init's own note of the slot is a change that waits in it
    ),
    _made(
        "of the same table in another schema",
        False,
        f"{TABLE}; CREATE SCHEMA far; CREATE TABLE far.outbox (LIKE outbox);"
        f" CREATE PUBLICATION walrelay FOR TABLE far.outbox; {SLOT}",
    ),
]

TABLES = [
    Situation("renamed", False, "ALTER TABLE outbox RENAME TO events", event=NO_EVENT),
    Situation("dropped", False, "DROP TABLE outbox", event=NO_EVENT),
    Situation(
        "dropped and made again",
        False,
        f"DROP TABLE outbox; {TABLE}; ALTER PUBLICATION walrelay ADD TABLE outbox",
        says="created again",
    ),
    Situation("moved to another schema", False, "CREATE SCHEMA far; ALTER TABLE outbox SET SCHEMA far", event=NO_EVENT),
    *[
        _made(
            f"{kind}{' under wal2json' if settings else ''}",
            False,
            f"{sql}; {slot}",
            cured=False,
            event=NO_EVENT,
            settings=settings,
            says=kind,
        )
        for settings, slot in (({}, SLOT), (W2J, WAL2JSON_SLOT))
        for kind, sql in (
            ("a view", f"CREATE TABLE base ({COLUMNS}, {REST}); CREATE VIEW outbox AS SELECT * FROM base"),
            (
                "a materialized view",
                f"CREATE TABLE base ({COLUMNS}, {REST}); CREATE MATERIALIZED VIEW outbox AS SELECT * FROM base",
            ),
            ("a foreign table", f"{FOREIGN}; CREATE FOREIGN TABLE outbox ({COLUMNS}, {REST}) SERVER nowhere"),
            ("a sequence", "CREATE SEQUENCE outbox"),
            ("an index", "CREATE TABLE base (n int); CREATE INDEX outbox ON base (n)"),
            ("a composite type", "CREATE TYPE outbox AS (n int)"),
            ("unlogged", TABLE.replace("CREATE", "CREATE UNLOGGED")),
        )
    ],
    _made("partitioned under wal2json", False, f"{PARTITIONED}; {WAL2JSON_SLOT}", settings=W2J, cured=False),
    *[
        _made(
            f"with {kind} partition",
            False,
            f"{FOREIGN}; CREATE TABLE outbox ({COLUMNS}, {REST}) PARTITION BY LIST (aggregate_type);"
            f" CREATE TABLE orders PARTITION OF outbox FOR VALUES IN ('order');"
            " CREATE PUBLICATION walrelay FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root);"
            f" {sql}; {SLOT}",
            cured=False,
            says=kind.split()[-1],
            newest=True,
        )
        for kind, sql in (
            ("an unlogged", "CREATE UNLOGGED TABLE fast PARTITION OF outbox FOR VALUES IN ('fast')"),
            ("a foreign", "CREATE FOREIGN TABLE fast PARTITION OF outbox FOR VALUES IN ('fast') SERVER nowhere"),
        )
    ],
    _table("without an optional column", f"{COLUMNS}, payload jsonb, headers jsonb, topic text"),
    _table("with more columns", f"{COLUMNS}, {REST}, n int, more text[]"),
    _table(
        "without the type",
        f"{COLUMNS.replace(', type text', '')}, {REST}",
        False,
        cured=False,
        event=EVENT.replace(" type,", "").replace(" 'placed',", ""),
    ),
    _table(
        "with a column of another name",
        f"{COLUMNS.replace('aggregate_type', 'kind')}, {REST}",
        False,
        cured=False,
        by_fix=False,
        event=EVENT.replace("aggregate_type", "kind"),
    ),
    Situation("with a column that was renamed", False, "ALTER TABLE outbox RENAME COLUMN topic TO goal", cured=False),
    Situation(
        "with a column that was dropped and is back",
        True,
        "ALTER TABLE outbox DROP COLUMN topic; ALTER TABLE outbox ADD COLUMN topic text",
    ),
    _table(
        "with a generated topic",
        f"{COLUMNS}, {REST}".replace("topic text", "topic text GENERATED ALWAYS AS (type || '-events') STORED"),
        False,
        cured=False,
        newest=True,
    ),
    _table(
        "with a generated tenant",
        f"{COLUMNS}, {REST}".replace("tenant_id text", "tenant_id text GENERATED ALWAYS AS (type || '-tenant') STORED"),
        newest=True,
    ),
    _made(
        "with a generated topic that is published",
        True,
        f"CREATE TABLE outbox ({COLUMNS}, {REST}); ALTER TABLE outbox DROP COLUMN topic; ALTER TABLE outbox ADD COLUMN"
        f" topic text GENERATED ALWAYS AS (type || '-events') STORED; CREATE PUBLICATION walrelay FOR TABLE outbox WITH"
        f" (publish = 'insert', publish_generated_columns = stored); {SLOT}",
        only_newest=True,
    ),
    _table(
        "with numbers as ids",
        f"{COLUMNS}, {REST}".replace("id uuid DEFAULT gen_random_uuid()", "id bigint GENERATED ALWAYS AS IDENTITY", 1),
    ),
    _table("with bytes as payload", f"{COLUMNS}, {REST}".replace("payload jsonb", "payload bytea")),
    _table("with text as payload", f"{COLUMNS}, {REST}".replace("payload jsonb", "payload text")),
    _table("with headers that are an array", f"{COLUMNS}, {REST}".replace("headers jsonb", "headers text[]")),
    _table(
        "with a type that binary mode does not read",
        f"{COLUMNS}, {REST}".replace("aggregate_id text", "aggregate_id numeric"),
        event=EVENT.replace("'1'", "1"),
    ),
    _table(
        "with a domain and an enumeration", f"{COLUMNS}, {REST}".replace(" type text", " type what"), event=EVENT
    )._replace(
        sql=f"CREATE TYPE what AS ENUM ('placed'); CREATE DOMAIN topics AS text; CREATE TABLE outbox ("
        f"{COLUMNS.replace(' type text', ' type what')}, {REST.replace('topic text', 'topic topics')});"
        f" {PUBLICATION}; {SLOT}"
    ),
    _made(
        "with names to be quoted",
        True,
        f'CREATE SCHEMA "My Schema"; CREATE TABLE "My Schema"."Out box" ({COLUMNS}, {REST});'
        f' CREATE PUBLICATION "the outbox" FOR TABLE "My Schema"."Out box" WITH (publish = \'insert\'); {SLOT}',
        event=EVENT.replace("outbox", '"My Schema"."Out box"'),
        settings={"source": {"publication": "the outbox"}, "outbox": {"table": '"My Schema"."Out box"'}},
    ),
    Situation("with row level security", True, "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY"),
    Situation("of another owner", True, "CREATE ROLE {slot}_owner; ALTER TABLE outbox OWNER TO {slot}_owner"),
    Situation("with a child by inheritance", True, "CREATE TABLE child () INHERITS (outbox)"),
    Situation(
        "with rows in a child by inheritance",
        False,
        "CREATE TABLE child () INHERITS (outbox); " + EVENT.replace("INTO outbox", "INTO child"),
        says="child inherits from public.outbox, and has rows",
        told=True,
        newest=True,
        oldest=True,
    ),
    Situation(
        "with a trigger that keeps every row out",
        False,
        "CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
        " CREATE TRIGGER away BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION away()",
        says="trigger away of public.outbox keeps every row out",
        told=True,
        event=NO_EVENT,
    ),
    Situation(
        "with a rule that keeps every row out",
        False,
        "CREATE RULE away AS ON INSERT TO outbox DO INSTEAD NOTHING",
        says="rule away of public.outbox keeps every row out",
        told=True,
        event=NO_EVENT,
    ),
    Situation(
        "with a trigger that keeps some rows out",
        True,
        "CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF new.type = 'other' THEN RETURN NULL; END IF; RETURN NEW; END $$;"
        " CREATE TRIGGER away BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION away()",
    ),
    Situation("without a primary key", True, "ALTER TABLE outbox DROP CONSTRAINT outbox_pkey"),
    Situation("that is rewritten", True, "ALTER TABLE outbox ALTER COLUMN aggregate_id TYPE varchar(200)"),
]

ROLES = [
    Situation("a superuser of another name", True, role="SUPERUSER"),
    Situation("without REPLICATION", False, role="", cured=False, says="REPLICATION", newest=True),
    Situation("that may not use the outbox's schema", False,
              "CREATE SCHEMA app; ALTER TABLE outbox SET SCHEMA app; CREATE PUBLICATION other FOR TABLE app.outbox",
              role="REPLICATION", event=NO_EVENT, cured=False, says="may not use schema",
              settings={"outbox": {"table": "app.outbox"}}),
    Situation("with a statement timeout and a search path", True,
              "ALTER DATABASE {slot} SET statement_timeout = '10s'; ALTER DATABASE {slot} SET search_path = nowhere",
              event=EVENT.replace("outbox", "public.outbox")),
    Situation("with other ways to write dates and bytes", True,
              "ALTER DATABASE {slot} SET DateStyle = 'SQL, DMY'; ALTER DATABASE {slot} SET bytea_output = 'escape'"),
    Situation("a database that is read only", True, "ALTER DATABASE {slot} SET default_transaction_read_only = on",
              event="SET transaction_read_only = off; " + EVENT),
]  # fmt: skip

DATABASES = [
    Situation("LATIN1", True, encoding="LATIN1"),
    _made("LATIN1 under wal2json", False, f"{TABLE}; {WAL2JSON_SLOT}", encoding="LATIN1", settings=W2J, cured=False,
          says="LATIN1"),
    Situation("SQL_ASCII", True, encoding="SQL_ASCII"),
    Situation("SQL_ASCII under wal2json", True, encoding="SQL_ASCII", settings=W2J),
    Situation("SQL_ASCII with a column whose name is not UTF-8", True,
              "SET client_encoding = 'SQL_ASCII'; DO $$ BEGIN EXECUTE 'ALTER TABLE outbox ADD COLUMN \"' ||"
              " convert_from('\\xe9'::bytea, 'SQL_ASCII') || '\" text'; END $$", encoding="SQL_ASCII"),
]  # fmt: skip

SITUATIONS = [
    (group, each)
    for group, situations in (
        ("slot", SLOTS),
        ("publication", PUBLICATIONS),
        ("table", TABLES),
        ("role", ROLES),
        ("database", DATABASES),
    )
    for each in situations
]
