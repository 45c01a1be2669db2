"""The rows of tests/golden/debezium through PostgreSQL, the installed relay and Kafka: what Debezium made of them."""

import json
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import event_id
from tests.conftest import PostgresMaker
from tests.golden.capture_debezium import jars, record
from tests.golden.test_debezium_golden import DIRECTORY, DISORDERED, OPTIONS, cases, converted, is_lost, recorded
from tests.servers.database import Database
from tests.servers.topics import Kafka

JSON = ("json", "json", "json")
BINARY = {"binary": True}  # if the types of the columns allow it


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """With one partition: the order of all records is compared."""
    return kafka.create_topic()


def make_table(database: Database, table: str) -> str:
    """Returns the statement that fills it."""
    tables, _, rows = (DIRECTORY / "tables.sql").read_text("utf-8").partition("-- rows\n")
    for statement in tables.split(";\n"):
        if f"CREATE TABLE {table} " in statement or "CREATE TYPE" in statement or "CREATE DOMAIN" in statement:
            database.execute(statement)
    return next(each for each in rows.split("\n\n") if each.lstrip().startswith(f"INSERT INTO {table} "))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("headers", BINARY),
        ("bytes envelope", BINARY),
        ("bytes", {"binary": False}),
        ("types headers", BINARY),
        ("types numeric", BINARY),
        ("kinds headers", BINARY),
        ("kinds headers", {"plugin": "wal2json"}),
        ("kinds payload content", BINARY),
        ("lists envelope", {"binary": False}),
        ("types texts", BINARY),
    ],
)
def test_records_are_those_of_debezium(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, name: str, source: dict[str, Any]
) -> None:
    table = OPTIONS[name]["table"]
    rows = make_table(database, table).replace("'infinity'", "NULL").replace("'-infinity'", "NULL")
    options: dict[str, Any] = OPTIONS[name]["router"] | {"topic.prefix": "app", "route.topic.replacement": topic}
    options |= OPTIONS[name].get("connector", {})
    converters = dict(zip(("key.converter", "value.converter", "header.converter"), JSON, strict=True))
    deployed = deploy(
        database,
        kafka,
        topic,
        source=source,
        outbox={"table": table},
        route=None,
        debezium=options | converters,
        refusals={"policy": "dead_letter"},
    )
    deployed.start()
    database.execute(rows)
    deployed.catch_up()
    theirs = [converted(described, *JSON) for row, described in cases(name) if not is_lost(name, row)]
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
    why = "column 'at_zone' of public.types has a type that cannot be used there"
    assert why in str(relay.log[-1])
    (found,) = (
        each
        for each in json.loads(deployed.command("doctor", "--json", exit_code=1))["findings"]
        if each["subject"] == "column types"
    )
    assert (found["verdict"], why in found["detail"]) == ("problem", True)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_column_places_a_row_in_its_partition_and_one_that_is_not_there_is_refused(
    deploy: Deploy, database: Database, kafka: Kafka, delivery: str
) -> None:
    topic = kafka.create_topic(partitions=3)
    database.execute("CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, payload text, shard int)")
    deployed = deploy(
        database,
        kafka,
        topic,
        outbox={"table": "outbox"},
        route=None,
        debezium={"table.fields.additional.placement": "shard:partition", "route.topic.replacement": topic},
        delivery=delivery,
        refusals={"policy": "dead_letter"},
    )
    relay = deployed.start()
    chosen = [2, 0, 1, None, 2, 4, 0, -1]
    for number, shard in enumerate(chosen):
        database.execute("INSERT INTO outbox VALUES (%s, 'a', 'k', '', %s)", [number, shard])
    deployed.catch_up()
    expected = {0: 2, 1: 0, 2: 1, 4: 2, 6: 0}
    where = {int(event_id(message)): message.partition for message in deployed.delivered()}
    assert where.pop(3) in (0, 1, 2)
    assert where == expected
    refused, negative = (json.loads(line) for line in deployed.command("dlq", "export").splitlines())
    assert (refused["id"], refused["error"], refused["message"]["partition"]) == ("5", "unknown_partition", 4)
    assert (negative["id"], negative["error"]) == ("7", "unroutable")
    assert negative["reason"].endswith("shard is -1, which is no partition")
    admin = kafka.admin  # must live until the answer is there
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(15)
    kafka.wait_for_leaders(topic, 5)
    database.execute("INSERT INTO outbox VALUES (8, 'a', 'k', '', 4)")  # the client has not asked since
    deployed.catch_up()
    relay.stop()
    deployed.command("dlq", "replay", "--id", "5")
    assert [int(event_id(message)) for message in deployed.delivered() if message.partition == 4] == [8, 5]
    kafka.delete_topics(topic)


def test_a_relay_that_stops_at_a_partition_that_is_not_there_says_which(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    database.execute("CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, payload text, shard int)")
    placed = {"table.fields.additional.placement": "shard:partition", "route.topic.replacement": topic}
    deployed = deploy(database, kafka, topic, outbox={"table": "outbox"}, route=None, debezium=placed)
    relay = deployed.start()
    database.execute("INSERT INTO outbox SELECT n, 'a', 'k', '', n / 400 * 7 FROM generate_series(1, 400) n")
    assert relay.wait() == 1
    assert "record 400 at " in str(relay.log[-1])
    assert "The topic has no partition 7, which the row asks for: add partitions with kafka-topics.sh" in str(
        relay.log[-1]
    )
    assert {*map(event_id, deployed.delivered())} == {str(number) for number in range(1, 400)}


@pytest.mark.chaos
def test_debezium_still_makes_of_the_rows_what_was_recorded(private_postgres: PostgresMaker) -> None:
    """But for the order of fields of differing objects, which is another one each time."""
    found = record(private_postgres(wal_level="logical").create_database(), jars())
    found = json.loads(json.dumps(found))
    assert found["tables"] == recorded()["tables"]
    assert found["routed"].keys() == recorded()["routed"].keys()
    ids = [id_ for id_, *_ in recorded()["tables"]["texts"]["rows"]]
    differing = list[tuple[str, Any, Any]]()
    for name, rows in recorded()["routed"].items():
        varies = DISORDERED if OPTIONS[name]["table"] == "texts" and "expanded" in name else ()
        pairs = enumerate(zip(rows, found["routed"][name], strict=True))
        differing += [(name, old, new) for at, (old, new) in pairs if old != new and ids[at] not in varies]
    assert differing == []
