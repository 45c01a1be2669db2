"""For any rules and any rows: what the server withholds by the row filter is what the rules drop."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from psycopg import Connection
from pydantic import ValidationError

from tests.integration.relaying.harness import Outbox
from tests.servers.database import Database
from walrelay.model import OutboxRecord
from walrelay.postgres.catalog import Catalog
from walrelay.route.rules import RuleRouter
from walrelay.table.row_filter import columns_of, dropped, lost, parsed, row_filter, sent, settled
from walrelay.wire.frames import xlogdata

TABLE = """
    DROP TABLE outbox;
    CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text COLLATE "en-x-icu",
        aggregate_id varchar(9), type text, payload jsonb, headers jsonb, topic text, tenant_id text, flag boolean,
        small smallint, n int, big bigint, code char(4), amount numeric, who uuid, data jsonb)
"""
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "b",
    "a'b",
    "a\\b",
    "\\",
    'a"b',
    "a b ",
    "a\n",
    "%",
    "ä",
    "a\u0308",
    "é",
    "😀",
    "NULL",
    "t",
]
WHO = "0b7e4a2c-8c1c-4c5e-9a60-5f2d8a4f6d11"
VALUES: dict[str, list[Any]] = {
    **{name: [None, *TEXTS] for name in ("aggregate_type", "aggregate_id", "type", "tenant_id")},
    "topic": [None, "a", "b"],
    "column.flag": [None, True, False],
    **{f"column.{name}": [None, 0, 1, -1, 32767] for name in ("small", "n", "big")},
    "column.code": [None, "", "a", "ab", "ä"],
    "column.amount": [None, "1", "1.0", "1.50", "NaN", "-0.5"],
    "column.who": [None, WHO, "0b7e4a2c-8c1c-4c5e-9a60-5f2d8a4f6d12"],
    "column.data": [None, "{}", "null"],
}
ASKED = [*TEXTS, "true", "false", "f", "0", "1", "-1", "1.5", "1.50", "NaN", WHO, WHO.upper(), "a   ", "{}", "null"]

FIELDS = st.sampled_from(sorted(VALUES))
CONDITIONS = st.one_of(
    st.fixed_dictionaries({"one_of": st.lists(st.sampled_from(ASKED), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"prefix": st.sampled_from([text for text in ASKED if text])}),
    st.fixed_dictionaries({"exists": st.booleans()}),
)
WHENS = st.dictionaries(FIELDS, CONDITIONS, min_size=1, max_size=2)
ROWS = st.lists(
    st.fixed_dictionaries({field: st.sampled_from(values) for field, values in VALUES.items()}), min_size=5, max_size=9
)


@pytest.fixture(params=["text", "binary"])
def outbox(request: pytest.FixtureRequest, database: Database) -> Outbox:
    if database.server.major < 15:
        pytest.skip("publications have row filters since PostgreSQL 15")
    outbox = Outbox(database, request.param)
    outbox.init()
    for statement in (*TABLE.strip().split(";"), "CREATE PUBLICATION whole FOR TABLE outbox WITH (publish = 'insert')"):
        database.execute(statement)
    # The publication exists in none of the WAL before this.
    database.execute(
        "SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())", [outbox.settings.source.slot]
    )
    return outbox


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(whens=st.lists(WHENS, min_size=1, max_size=3), rows=ROWS)
def test_what_the_filter_withholds_is_what_the_rules_drop(
    outbox: Outbox, whens: list[dict[str, Any]], rows: list[dict[str, Any]]
) -> None:
    routes = [{"name": f"drop-{number}", "when": when, "drop": True} for number, when in enumerate(whens)]
    try:
        under = outbox.under(routes=[*routes, {"name": "rest", "topic": "rest"}])
    except ValidationError:  # a rule that no record comes to
        reject()
    with Catalog(under.wiring.dsn) as catalog, under.database.connect() as connection:
        columns = columns_of(catalog, under.wiring.table)
        drops = settled(dropped(under.wiring), columns, "UTF8")
        able = {drop.rule for drop in drops if not drop.why}
        condition = row_filter(drops, columns)
        connection.execute("DROP PUBLICATION IF EXISTS walrelay")
        where = f" WHERE ({condition})" if condition else ""
        connection.execute(f"CREATE PUBLICATION walrelay FOR TABLE outbox{where} WITH (publish = 'insert')".encode())
        if condition:
            ((printed,),) = connection.execute(
                "SELECT rowfilter FROM pg_publication_tables WHERE pubname = 'walrelay'"
            ).fetchall()
            withheld = parsed(printed)
            assert withheld == tuple(drop.conditions for drop in drops if not drop.why)
            assert not lost(withheld, drops)
            assert not sent(withheld, drops)
        for row in rows:
            names = [name.removeprefix("column.") for name in row]
            connection.execute(
                f"INSERT INTO outbox ({', '.join(names)}, payload) VALUES ({'%s, ' * len(row)}'{{}}')".encode(),
                [*row.values()],
            )
        passed = {record.id for record in _records(under, catalog, connection, "walrelay")}
        rules = under.wiring.rules
        router = RuleRouter(
            [rule for rule in rules.routes if rule.name in able or not rule.drop], "t", roles=rules.roles
        )
        whole = [*_records(under, catalog, connection, "whole")]
        connection.execute(
            "SELECT count(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version',"
            " '1', 'publication_names', 'whole')",
            [under.settings.source.slot],
        )
    assert len(whole) == len(rows)
    assert passed == {record.id for record in whole if router.decide(record)[1] is None}


def _records(outbox: Outbox, catalog: Catalog, connection: Connection[Any], publication: str) -> Iterator[OutboxRecord]:
    binary = outbox.wiring.binary_suits(catalog)
    wiring = outbox.wiring._replace(publication=publication)
    options = [text.strip('"') for option in wiring.options(binary=binary) for text in option]
    decoder = wiring.decoder(wiring.needed, encoding="UTF8", binary=binary)
    for (body,) in connection.execute(
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, VARIADIC %s::text[])",
        [wiring.slot, options],
    ).fetchall():
        for event in decoder.decode(xlogdata(8, 8, body)):
            if isinstance(event, OutboxRecord):
                yield event
