"""Binary mode reads every value that text mode reads, and prints it in the same way."""

from random import Random

from tests.integration.relaying.harness import Outbox, relaying, small
from tests.integration.relaying.ways import there
from tests.servers.database import Database
from walrelay.decode import records
from walrelay.decode.records import BINARY_PRINTERS

FIRST, LAST = -211_813_488_000_000_000, 9_223_371_331_199_999_999  # microseconds from 2000 that PostgreSQL knows
SEND = {
    records.BOOL: "boolsend",
    records.BYTEA: "byteasend",
    records.NAME: "namesend",
    records.INT8: "int8send",
    records.INT2: "int2send",
    records.INT4: "int4send",
    records.TEXT: "textsend",
    records.JSON: "json_send",
    records.BPCHAR: "bpcharsend",
    records.VARCHAR: "varcharsend",
    records.UUID: "uuid_send",
    records.JSONB: "jsonb_send",
}
VALUES = {
    records.BOOL: ["t", "f"],
    records.BYTEA: ["", "\\x00ff", "\\x0a"],
    records.INT8: ["-9223372036854775808", "0", "9223372036854775807"],
    records.INT2: ["-32768", "-1", "32767"],
    records.INT4: ["-2147483648", "7", "2147483647"],
    records.BPCHAR: ["a  ", ""],
    records.JSON: ['{"a":  [1, 2.50, "\\u00e9"]}', "null"],
    records.JSONB: ['{"a":  [1, 2.50, "\\u00e9"], "a": 1e400}', '"x"'],
    records.UUID: ["00112233-4455-6677-8899-aabbccddeeff"],
}
STRANGE = [
    *("infinity", "-infinity", "4714-11-24 00:00:00+00 BC", "0044-03-15 12:00:00.5+00 BC", "0001-12-31 23:59:59+00 BC"),
    *("0001-01-01 00:00:00+00", "0004-02-29 00:00:00+00", "0005-02-28 00:00:00+00 BC", "9999-12-31 23:59:59.999999+00"),
    *("10000-01-01 00:00:00+00", "12345-06-07 08:09:10.000001+00", "294276-12-31 23:59:59.999999+00"),
]


def test_any_moment_is_printed_as_the_server_does(database: Database) -> None:
    random = Random(1)
    moments = [FIRST, LAST, *(random.randint(FIRST, LAST) for _ in range(2_000))]
    moments += [
        random.randint(-70_000_000_000_000_000, -60_000_000_000_000_000) for _ in range(1_000)
    ]  # years 219 BC to 98
    with database.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET DateStyle = 'ISO, MDY'")
        rows = connection.execute(
            "SELECT moment::text, timestamptz_send(moment), (moment AT TIME ZONE 'UTC')::text"
            " FROM unnest(%s::int8[]) n, LATERAL (SELECT timestamptz '2000-01-01 00:00:00+00'"
            " + make_interval(days => (n / 86400000000)::int) + (n %% 86400000000) * interval '1 microsecond')"
            " m (moment)",
            [moments],
        ).fetchall()
    assert len(rows) == len(moments)
    for text, sent, local in rows:
        assert BINARY_PRINTERS[records.TIMESTAMPTZ](bytes(sent)) == text
        assert BINARY_PRINTERS[records.TIMESTAMP](bytes(sent)) == local


def test_every_type_of_binary_mode_is_printed_as_the_server_does(database: Database) -> None:
    assert {*SEND, records.TIMESTAMP, records.TIMESTAMPTZ} == set(BINARY_PRINTERS)
    with database.connect() as connection:
        for oid, send in SEND.items():
            for value in VALUES.get(oid, ["", "caf\u00e9", "x" * 60]):
                row = connection.execute(
                    f"SELECT typoutput::text, {send}(%s::text::{_name(oid)}), (%s::text::{_name(oid)})"
                    f" IS NULL FROM pg_type WHERE oid = {oid}".encode(),
                    [value, value],
                ).fetchone()
                assert row is not None
                printed = connection.execute(
                    f"SELECT format('%%s', %s::text::{_name(oid)})".encode(), [value]
                ).fetchone()
                assert printed is not None
                assert BINARY_PRINTERS[oid](bytes(row[1])) == printed[0]


def test_moments_before_year_1_and_after_9999_are_the_same_message_in_every_way(database: Database) -> None:
    database.execute("CREATE TABLE t (id text PRIMARY KEY, aggregate_id timestamptz, payload jsonb)")
    outboxes = [Outbox(database, way, **small()) for way in there(database.server)]
    for outbox in outboxes:
        outbox.init()
    with relaying(outboxes) as relays:
        for number, moment in enumerate(STRANGE):
            database.execute("INSERT INTO t VALUES (%s, %s, '{}')", [str(number), moment])
        for outbox, relay in zip(outboxes, relays, strict=True):
            broker = outbox.broker
            relay.wait_until(lambda broker=broker: len(broker.durable) >= len(STRANGE), "all events")  # type: ignore[misc]
    keys = [[(message.key or b"").decode() for message in outbox.broker.durable] for outbox in outboxes]
    assert keys == [STRANGE] * len(outboxes)


def _name(oid: int) -> str:
    return {records.BPCHAR: "character(3)", records.VARCHAR: "varchar"}.get(oid, "") or {
        records.BOOL: "bool",
        records.BYTEA: "bytea",
        records.NAME: "name",
        records.INT8: "int8",
        records.INT2: "int2",
        records.INT4: "int4",
        records.TEXT: "text",
        records.JSON: "json",
        records.UUID: "uuid",
        records.JSONB: "jsonb",
    }[oid]
