"""The rows of tests/golden/debezium through PostgreSQL, the installed relay and Kafka: what Debezium made of them."""

from typing import Any

import pytest

from tests.acceptance.conftest import Deploy
from tests.golden.test_debezium_golden import DIRECTORY, OPTIONS, cases, converted
from tests.servers.database import Database
from tests.servers.topics import Kafka

JSON = ("json", "json", "json")


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """With one partition: the order of all records is compared."""
    return kafka.create_topic()


def make_table(database: Database, table: str) -> str:
    """Returns the statement that fills it."""
    tables, _, rows = (DIRECTORY / "tables.sql").read_text("utf-8").partition("-- rows\n")
    for statement in tables.split(";\n"):
        if f"CREATE TABLE {table} " in statement:
            database.execute(statement)
    return next(each for each in rows.split("\n\n") if each.lstrip().startswith(f"INSERT INTO {table} "))


@pytest.mark.parametrize(
    ("name", "binary"), [("headers", True), ("bytes envelope", True), ("bytes", False), ("types headers", True)]
)
def test_records_are_those_of_debezium(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, name: str, binary: bool
) -> None:
    table = OPTIONS[name]["table"]
    rows = make_table(database, table).replace("'infinity'", "NULL").replace("'-infinity'", "NULL")
    options: dict[str, Any] = OPTIONS[name]["router"] | {"topic.prefix": "app", "route.topic.replacement": topic}
    converters = dict(zip(("key.converter", "value.converter", "header.converter"), JSON, strict=True))
    deployed = deploy(
        database,
        kafka,
        topic,
        source={"binary": binary},
        outbox={"table": table},
        route=None,
        debezium=options | converters,
    )
    deployed.start()
    database.execute(rows)
    deployed.catch_up()
    theirs = [converted(described, *JSON) for _, described in cases(name)]
    ours = deployed.delivered()
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if mine.key is not None and b"infinity" in (mine.value or b""):
            continue  # times that are NULL here
        headers = [each for each in mine.headers if each[0] not in ("position", "__debezium.context.runId")]
        assert other is not None
        assert (mine.key, mine.value, headers) == (other.key, other.value, other.headers)
    assert all(dict(each.headers)["__debezium.context.runId"] for each in ours)


def test_a_payload_that_debezium_dies_of_stops_the_relay_with_its_record(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    make_table(database, "outbox")
    expanding = {"table.expand.json.payload": True, "value.converter": "json", "route.topic.replacement": topic}
    deployed = deploy(database, kafka, topic, route=None, debezium=expanding)
    relay = deployed.start()
    row = "INSERT INTO outbox VALUES ('59a42efd-b015-44a9-9dde-cb36d900242{}', 'a', '1', 't', '{}')"
    database.execute(row.format(1, '{"a": 1, "n": null}'))
    database.execute(row.format(2, "[1]"))
    assert relay.wait() == 1
    assert "cannot be expanded: it is a list" in str(relay.log[-1])
    assert [message.value for message in deployed.delivered()] == [b'{"a":1}']


def test_a_table_that_does_not_suit_is_told_before_the_first_event(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    make_table(database, "types")
    deployed = deploy(
        database,
        kafka,
        topic,
        outbox={"table": "types"},
        route=None,
        debezium={"table.field.event.timestamp": "at_zone"},
    )
    relay = deployed.launch()
    assert relay.wait() == 1
    assert "column 'at_zone' of public.types has a type that cannot be used there" in str(relay.log[-1])
