"""Which column means what, and that its value reaches the broker as it stands in the table."""

import os
from uuid import UUID

import pytest

from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox, header, small
from tests.servers.database import Database

ODD_TABLE = '"Odd, ""Schema"". \'é\'"."out.box\\ *"'
ODD_COLUMNS = {
    "id": 'the "Id"',
    "aggregate_type": "Kind, of",
    "aggregate_id": "key.of\\it",
    "type": "Ereignis für 日本",
    "payload": "SELECT",
    "headers": "kopf'zeilen %s",
    "topic": " topic ",
    "tenant_id": None,
    "created_at": None,
}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_every_role_of_a_row_has_its_place_in_the_message(outbox: Outbox) -> None:
    identity = UUID("00000000-0000-4000-8000-0000000000ff")
    outbox.database.execute(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload, headers, topic, tenant_id)"
        " VALUES (%s, 'order', 'o-1', 'placed', '{\"b\": 1.50, \"a\": \"ß€𝄞\"}', '{\"trace\": \"00-1\"}', NULL, 't')",
        [identity],
    )
    outbox.database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, topic)"
        " VALUES ('order', '', 'none', 'null', 'elsewhere')"
    )
    with outbox.relay() as relay:
        first, second = outbox.messages(relay)
    assert (first.topic, first.key) == ("outbox.event.order", b"o-1")
    assert first.value == '{"a": "ß€𝄞", "b": 1.50}'.encode()  # as jsonb prints it
    assert [name for name, _ in first.headers] == ["trace", "id", "type", "position"]
    assert (header(first, "trace"), header(first, "id"), header(first, "type")) == (
        b"00-1",
        str(identity).encode(),
        b"placed",
    )
    assert (second.topic, second.key, second.value) == ("elsewhere", b"", b"null")


def test_an_existing_table_with_names_of_its_own_is_read_by_settings(
    database: Database, make_outbox: OutboxMaker
) -> None:
    database.execute(
        "CREATE TABLE events (noise int, body text, seq bigserial PRIMARY KEY, entity varchar(40), kind text)"
    )
    columns = dict.fromkeys(("aggregate_type", "headers", "topic", "tenant_id", "created_at"))
    outbox = make_outbox(
        outbox={
            "table": "events",
            "columns": {**columns, "id": "seq", "aggregate_id": "entity", "type": "kind", "payload": "body"},
        },
        route={"topic": "events.{type}"},
    )
    database.execute("INSERT INTO events (body, entity, kind) VALUES ('  not {json', 'e', 'made')")
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    assert (message.topic, message.key, message.value) == ("events.made", b"e", b"  not {json")
    assert (header(message, "id"), header(message, "type")) == (b"1", b"made")


@pytest.mark.parametrize(
    ("type_name", "texts"),
    [
        ("jsonb", ['{"a":  1.50, "a": 2}', '"\\u00e9\\n"', "null", None]),
        ("json", ['{"a":  1.50, "a": 2}', '"\\u00e9\\n"', " null ", None]),
        ("text", ["", "null", 'ß "quoted" \\ \x01\x7f\r\n\t', None]),
    ],
)
def test_a_payload_is_the_columns_text(
    database: Database, make_outbox: OutboxMaker, type_name: str, texts: list[str | None]
) -> None:
    outbox = _with_payload(database, make_outbox, type_name)
    database.execute(f"INSERT INTO t SELECT 1, text::{type_name} FROM unnest(%s::text[]) AS text", [texts])
    printed = [text for (text,) in database.execute("SELECT payload::text FROM t")]
    with outbox.relay() as relay:
        assert outbox.values(relay) == [None if text is None else text.encode() for text in printed]


def test_a_bytea_payload_is_its_bytes_unchanged(database: Database, make_outbox: OutboxMaker) -> None:
    outbox = _with_payload(database, make_outbox, "bytea")
    values = [b"", b"\x00", b"\\x41", bytes(range(256)), b"caf\xe9", os.urandom(5 * 2**20), None]
    for value in values:
        database.execute("INSERT INTO t VALUES (1, %s)", [value])
    with outbox.relay() as relay:
        assert outbox.values(relay) == values


def test_headers_are_the_members_of_a_json_object(outbox: Outbox) -> None:
    database = outbox.database
    database.execute("ALTER TABLE outbox DROP headers, ADD headers json")  # which keeps order and repetitions
    objects = ['{"a": "x", "a": "y", "n": 1.50, "none": null, "o": {"b": [true]}}', "{}", None]
    for headers in objects:
        database.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, headers) VALUES ('o', '1', 't', %s)", [headers]
        )
    with outbox.relay() as relay:
        first, *others = outbox.messages(relay)
    assert first.headers[:5] == [("a", b"x"), ("a", b"y"), ("n", b"1.50"), ("none", None), ("o", b'{"b":[true]}')]
    assert [len(message.headers) for message in others] == [3, 3]


@pytest.mark.parametrize(
    "columns",
    [
        {
            "uuid": ("00000000000000000000000000ABCDEF", b"00000000-0000-0000-0000-000000abcdef"),
            "bigint": ("-9223372036854775808", b"-9223372036854775808"),
            "varchar(10)": ("ä b", "ä b".encode()),
        },
        {"char(6)": ("ab", b"ab    "), "text": ("NaN", b"NaN"), "boolean": ("true", b"t")},
        {
            "timestamptz": ("2026-01-02 03:04:05.60+01", b"2026-01-02 02:04:05.6+00"),
            "integer": ("07", b"7"),
            "name": ("n", b"n"),
        },
        # read in text mode also where the settings say binary: the types have OIDs that nobody knows beforehand
        {"mood": ("so so", b"so so"), "short": ("ab", b"ab"), "numeric": ("7.10", b"7.10")},
    ],
    ids=lambda columns: "+".join(columns),
)
def test_a_value_of_any_type_is_the_text_that_postgres_prints(
    database: Database, make_outbox: OutboxMaker, columns: dict[str, tuple[str, bytes]]
) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('so so'); CREATE DOMAIN short AS text CHECK (length(VALUE) < 5)")
    roles = zip(("id", "aggregate_id", "type"), columns, strict=True)
    database.execute(f"CREATE TABLE t (payload text, {', '.join(f'{role} {name}' for role, name in roles)})")
    outbox = make_outbox(**small(type="type"))
    database.execute("INSERT INTO t VALUES ('x', {})".format(", ".join(f"'{text}'" for text, _ in columns.values())))
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    printed = [header(message, "id"), message.key, header(message, "type")]
    assert printed == [expected for _, expected in columns.values()]


def test_a_payload_of_a_domain_over_bytea_is_the_text_that_postgres_prints(
    database: Database, make_outbox: OutboxMaker
) -> None:
    """The stream names the domain, and says nothing of the type below it."""
    database.execute("CREATE DOMAIN blob AS bytea; CREATE TABLE t (id int, aggregate_id text, payload blob)")
    outbox = make_outbox(**small())
    database.execute("INSERT INTO t VALUES (1, 'a', decode('00ff', 'hex'))")
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"\\x00ff"]


def test_a_table_may_be_1600_columns_wide(database: Database, make_outbox: OutboxMaker) -> None:
    filling = [f"c{number} int" for number in range(1597)]
    columns = ["id int", *filling[:800], "payload text", *filling[800:], "aggregate_id text"]
    database.execute(f"CREATE TABLE t ({', '.join(columns)})")
    outbox = make_outbox(**small())
    database.execute(f"INSERT INTO t VALUES (1, {'7, ' * 800} 'full', {'8, ' * 797} 'last')")
    database.execute("INSERT INTO t (id, payload, aggregate_id) VALUES (2, 'empty', 'last')")
    with outbox.relay() as relay:
        assert [(message.key, message.value) for message in outbox.messages(relay)] == [
            (b"last", b"full"),
            (b"last", b"empty"),
        ]


def test_names_may_hold_quotes_dots_blanks_capitals_and_letters_of_any_script(
    database: Database, make_outbox: OutboxMaker
) -> None:
    names = [name for name in ODD_COLUMNS.values() if name]
    database.execute("CREATE SCHEMA " + ODD_TABLE.split('."out')[0])
    database.execute(f"CREATE TABLE {ODD_TABLE} ({', '.join(f'{quoted(name)} text' for name in names)})")
    outbox = make_outbox(
        source={"publication": 'Publication, "é"'}, outbox={"table": ODD_TABLE, "columns": ODD_COLUMNS}
    )
    values = ["1", "order", "o-1", "placed", "the payload", '{"h": "v"}', None]
    with database.connect() as connection:
        connection.execute(f"INSERT INTO {ODD_TABLE} VALUES ({', '.join(['%s'] * len(names))})".encode(), values)
    with outbox.relay() as relay:
        (message,) = outbox.messages(relay)
    assert (message.topic, message.key, message.value) == ("outbox.event.order", b"o-1", b"the payload")
    assert [header(message, name) for name in ("h", "id", "type")] == [b"v", b"1", b"placed"]


def _with_payload(database: Database, make_outbox: OutboxMaker, type_name: str) -> Outbox:
    database.execute(f"CREATE TABLE t (id int, payload {type_name})")
    return make_outbox(**small(aggregate_id=None))
