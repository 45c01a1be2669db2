"""The renderer against the plugin: the same WAL through wal2json, and through pgoutput and the renderer."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from tests.servers.choose import Missing, give_up
from tests.servers.database import Database
from walrelay.decode.records import as_text
from walrelay.wire import pgoutput, wal2json_lines
from walrelay.wire.frames import BODY, xlogdata

Connection = psycopg.Connection[tuple[Any, ...]]

CONTROLS = "".join(map(chr, range(1, 0x20))) + "\x7f\x80\x9f"
TEXTS = [
    "",
    "plain",
    'a "quote", a \\ and a /',
    CONTROLS,
    "ß ж € 𝄞 👩‍👩‍👧 \u2028\ufeff\uffff",
    "NaN",
    "-Infinity",
    "null",
    "7",
]

VALUES: dict[str, list[str]] = {
    "smallint": ["-32768", "0", "32767"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "oid": ["0", "4294967295"],
    "numeric": ["NaN", "Infinity", "-Infinity", "1.50", "12345678901234567890.000", "-0.0", "1e-20", "1e100"],
    "numeric(10,2)": ["NaN", "1.5", "-99999999.99"],
    "numeric(5,-2)": ["12345"],
    "real": ["NaN", "Infinity", "-Infinity", "-0", "0.1", "1e-7", "3.4028235e38"],
    "double precision": ["NaN", "Infinity", "-Infinity", "-0", "0.1", "1e300", "1e-300", "123456789012345680"],
    "boolean": ["true", "false"],
    "text": TEXTS,
    "character varying": TEXTS,
    "varchar(60)": TEXTS,
    "char(60)": TEXTS,
    "char": ["x"],
    '"char"': ["x", "", '"'],
    "name": TEXTS,
    "bytea": ["", "\\x00ff5c22", "abc"],
    "json": ['{"a":  "\\ud834\\udd1e\\n", "a": 1.50}', "null", '"x"'],
    "jsonb": ['{"b": 1.50, "a": "\\n\\u0001"}', "null"],
    "jsonpath": ['$.a[*] ? (@ > 1 && @ != "x")'],
    "uuid": ["00000000-0000-0000-0000-0000000000ff"],
    "timestamp": ["infinity", "-infinity", "2026-11-21 09:58:54.95604", "0044-03-15 BC"],
    "timestamp(3)": ["2026-11-21 09:58:54.95604"],
    "timestamptz": ["infinity", "2026-11-21 09:58:54.95604+05:30", "10000-01-01 00:00:00+00"],
    "date": ["infinity", "2026-11-21", "0044-03-15 BC"],
    "time": ["24:00:00"],
    "time(2) with time zone": ["09:58:54.956+05:30"],
    "interval": ["1 year -2 mons 3 days 04:05:06.789", "0"],
    "interval day to second(2)": ["1 day 00:00:01.239"],
    "integer[]": ["{1,NULL,-3}", "{}", "{{1},{2}}", "[0:1]={1,2}"],
    "text[]": ['{"a \\"b\\" \\\\",NULL,"NULL",""}'],
    "numeric(4,1)[]": ["{NaN,1.5}"],
    "float8[]": ["{NaN,Infinity,1e300}"],
    "boolean[]": ["{t,f}"],
    "bytea[]": ['{"\\\\x00ff"}'],
    "mood": ['glad "1"', "sad\\"],
    "mood[]": ['{sad\\\\,"glad \\"1\\""}'],
    '"Mood, odd"': ["a"],
    '"Mood, odd"[]': ["{a}"],
    'odd."Mood"': ["a"],
    '"Odd, Schema".mood': ["a"],
    '"Odd, Schema".mood[]': ["{a}"],
    "ratio": ["NaN", "1.50"],
    "flag": ["true"],
    "blob": ["\\x00ff"],
    "pair": ['(1,"a ""b"" \\\\")', "(,)"],
    "bit(5)": ["10101"],
    "bit varying": ["", "101"],
    "inet": ["192.168.0.1/24", "::1"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"],
    "money": ["-1234.5"],
    "int4range": ["[1,5)", "empty", "(,)"],
    "tstzrange": ['["2026-11-21 00:00:00+00",infinity)'],
    "int4multirange": ["{[1,2),[5,6)}"],
    "xml": ['<a b="c">&amp;\n</a>'],
    "point": ["(1,NaN)"],
    "polygon": ["((0,0),(1e300,1))"],
    "tsvector": ["'a':1A \"b\":2"],
    "tsquery": ["a & !b"],
    "pg_lsn": ["16/B374D848"],
    "xid": ["4294967295"],
    "regclass": ["pg_class"],
    "regtype": ["integer"],
    "hstore": ['"a b"=>"c\\"", d=>NULL'],
}

SCHEMA, TABLE = 'Odd, "Schema"', 'ta\\b.*\'\t"le"'

TYPES = """
CREATE SCHEMA odd;
CREATE SCHEMA "Odd, Schema";
CREATE TYPE mood AS ENUM ('glad "1"', 'sad\\');
CREATE TYPE "Mood, odd" AS ENUM ('a');
CREATE TYPE odd."Mood" AS ENUM ('a');
CREATE TYPE "Odd, Schema".mood AS ENUM ('a');
CREATE DOMAIN ratio AS numeric(6,2);
CREATE DOMAIN flag AS boolean;
CREATE DOMAIN blob AS bytea;
CREATE TYPE pair AS (a int, b text);
"""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    """A session on a database with the odd types, whose slots `json` and `binary` start behind them."""
    if not database.server.has_wal2json:
        give_up(Missing("this PostgreSQL has no wal2json"))
    with database.connect() as session:
        session.execute(TYPES.encode())
        session.execute(f"CREATE SCHEMA {quoted(SCHEMA)}".encode())
        session.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        for slot, plugin in (("json", "wal2json"), ("binary", "pgoutput")):
            session.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [slot_name(session, slot), plugin])
        yield session


def slot_name(session: Connection, slot: str) -> str:
    return f"{session.info.dbname}_{slot}"


def sent(session: Connection, slot: str, *options: str) -> list[bytes]:
    """The messages that wait in `slot`."""
    rows = session.execute(
        "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, VARIADIC %s)",
        [slot_name(session, slot), list(options)],
    )
    return [bytes(data) for (data,) in rows]


def without_empty_transactions(lines: list[bytes]) -> list[bytes]:
    """The plugin prints them, and pgoutput sends nothing of them since PostgreSQL 15."""
    kept: list[bytes] = []
    for line in lines:
        if line == wal2json_lines.COMMIT and kept[-1] == wal2json_lines.BEGIN:
            kept.pop()
        else:
            kept.append(line)
    return kept


def printed_by_the_plugin(session: Connection) -> list[bytes]:
    return without_empty_transactions(sent(session, "json", "format-version", "2"))


def rendered(session: Connection) -> list[bytes]:
    options = ("proto_version", "1", "publication_names", "everything", "messages", "true")
    relations: dict[int, pgoutput.Relation] = {}
    lines = []
    for body in sent(session, "binary", *options):
        frame = xlogdata(0, 0, body)
        match frame[BODY]:
            case pgoutput.BEGIN:
                lines.append(wal2json_lines.BEGIN)
            case pgoutput.COMMIT:
                lines.append(wal2json_lines.COMMIT)
            case pgoutput.RELATION:
                relation = pgoutput.parse_relation(frame)
                relations[relation.oid] = relation
            case pgoutput.INSERT:
                lines.append(rendered_row(session, relations[pgoutput.parse_insert(frame)[0]], frame))
            case pgoutput.MESSAGE:
                found = pgoutput.parse_message(frame)
                lines.append(
                    wal2json_lines.logical_message(
                        transactional=found.transactional, prefix=found.prefix, content=found.content
                    )
                )
    return without_empty_transactions(lines)


def rendered_row(session: Connection, relation: pgoutput.Relation, frame: bytes) -> bytes:
    columns = []
    texts = pgoutput.parse_row(frame, [as_text] * len(relation.columns))
    for column, text in zip(relation.columns, texts, strict=True):
        ((type_name,),) = session.execute("SELECT format_type(%s, %s)", [column.type_oid, column.type_modifier])
        columns.append(wal2json_lines.ColumnText(column.name, type_name, column.type_oid, text))
    return wal2json_lines.insert(relation.schema, relation.name, columns)


def supported(session: Connection) -> dict[str, list[str]]:
    """Without the types that this build does not have (xml) or that need an extension which is not there (hstore)."""
    with suppress(psycopg.Error):
        session.execute("CREATE EXTENSION hstore")
    found = {}
    for type_name, values in VALUES.items():
        try:
            session.execute(f"SELECT %s::{type_name}".encode(), values[:1])
        except (psycopg.errors.UndefinedObject, psycopg.errors.FeatureNotSupported):
            continue
        found[type_name] = values
    return found


def test_every_type_is_printed_byte_for_byte_as_the_plugin_prints_it(connection: Connection) -> None:
    types = supported(connection)
    table = f"{quoted(SCHEMA)}.{quoted(TABLE)}"
    columns = [f"{quoted(f'c {number} {name}'[:60])} {name}" for number, name in enumerate(types)]
    connection.execute(f"CREATE TABLE {table} (gone int, {', '.join(columns)})".encode())
    connection.execute(f"ALTER TABLE {table} DROP COLUMN gone".encode())
    for row in range(max(map(len, types.values())) + 1):  # the last one is all NULL
        values = [texts[row] if row < len(texts) else None for texts in types.values()]
        casts = ", ".join(f"%s::{name}" for name in types)
        connection.execute(f"INSERT INTO {table} VALUES ({casts})".encode(), values)
    expected = printed_by_the_plugin(connection)
    assert sum(line.startswith(b'{"action":"I"') for line in expected) > 5
    assert rendered(connection) == expected


def test_a_table_without_columns_and_many_rows_in_a_transaction_are_printed_as_by_the_plugin(
    connection: Connection,
) -> None:
    connection.execute("CREATE TABLE nothing (); CREATE TABLE many (n int)")
    connection.execute("INSERT INTO nothing DEFAULT VALUES")
    connection.execute("INSERT INTO many SELECT generate_series(1, 3)")
    expected = printed_by_the_plugin(connection)
    assert len(expected) == 8
    assert rendered(connection) == expected


@pytest.mark.parametrize("content", ["", "plain", 'a "b" \\ \n', "\\x61ff62", "\\x610062"])
@pytest.mark.parametrize("transactional", [True, False])
def test_a_logical_message_is_printed_as_by_the_plugin(
    connection: Connection, content: str, transactional: bool
) -> None:
    kind = "bytea" if content.startswith("\\x") else "text"
    connection.execute(
        f"SELECT pg_logical_emit_message(%s, %s, %s::{kind})".encode(), [transactional, 'pre "fix', content]
    )
    connection.execute("CREATE TABLE flushes_the_wal ()")  # nothing else writes out a non-transactional message
    expected = printed_by_the_plugin(connection)
    assert any(b'"action":"M"' in line for line in expected)
    assert rendered(connection) == expected
