"""A partitioned outbox: read under its own name, whatever partitions come and go."""

import pytest

from tests.integration.relaying.harness import Outbox, position
from tests.integration.relaying.ways import PGOUTPUT, WAL2JSON
from tests.servers.database import Database

PARTITIONED = """
CREATE TABLE outbox (
    id bigserial, aggregate_type text, aggregate_id text, type text, payload jsonb, headers jsonb, topic text,
    day int NOT NULL DEFAULT 1
) PARTITION BY RANGE (day);
CREATE TABLE day1 PARTITION OF outbox FOR VALUES FROM (1) TO (2);
"""


def write(database: Database, number: int, day: int) -> None:
    database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, day) VALUES ('order', '1', 't', %s, %s)",
        [str(number), day],
    )


@pytest.mark.parametrize("way", PGOUTPUT, indirect=True)
def test_partitions_come_and_go_under_load(database: Database, way: str) -> None:
    database.execute(PARTITIONED)
    outbox = Outbox(database, way, source={"publication_check_interval": 0.05})
    outbox.init()
    write(database, 1, day=1)
    database.execute("CREATE TABLE day3 (LIKE outbox, extra int); ALTER TABLE day3 DROP extra")  # another row layout
    with outbox.relay() as relay:
        database.execute("CREATE TABLE day2 PARTITION OF outbox FOR VALUES FROM (2) TO (3)")
        write(database, 2, day=2)
        database.execute("ALTER TABLE outbox ATTACH PARTITION day3 FOR VALUES FROM (3) TO (4)")
        write(database, 3, day=3)
        database.execute("ALTER TABLE outbox DETACH PARTITION day1")
        database.execute("INSERT INTO day1 (payload, day) VALUES ('\"detached\"', 1)")
        write(database, 4, day=2)
        database.execute("DROP TABLE day1, day2")
        database.execute("TRUNCATE day3")
        write(database, 5, day=3)
        messages = outbox.messages(relay)
    assert [message.value for message in messages] == [b"1", b"2", b"3", b"4", b"5"]
    assert [position(message) for message in messages] == sorted(position(message) for message in messages)


@pytest.mark.parametrize("way", PGOUTPUT, indirect=True)
def test_one_transaction_over_many_partitions_keeps_its_order(database: Database, way: str) -> None:
    database.execute(PARTITIONED)
    for day in range(2, 30):
        database.execute(f"CREATE TABLE day{day} PARTITION OF outbox FOR VALUES FROM ({day}) TO ({day + 1})")
    outbox = Outbox(database, way)
    outbox.init()
    database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, day)"
        " SELECT 'order', '1', 't', to_jsonb(n), 1 + n % 29 FROM generate_series(0, 499) n"
    )
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize("way", PGOUTPUT, indirect=True)
def test_partitions_published_under_their_own_names_are_refused_and_init_mends_it(database: Database, way: str) -> None:
    database.execute(PARTITIONED)
    outbox = Outbox(database, way)
    outbox.init()
    database.execute("ALTER PUBLICATION walrelay SET (publish_via_partition_root = false)")
    before = outbox.confirmed
    error = outbox.failure()
    assert "partitions" in str(error)
    assert "walrelay init" in error.hint
    assert outbox.confirmed == before
    outbox.init()
    write(database, 1, day=1)
    with outbox.relay() as relay:
        assert outbox.values(relay) == [b"1"]


@pytest.mark.parametrize("way", WAL2JSON, indirect=True)
def test_wal2json_is_refused_because_it_would_miss_every_row(database: Database, way: str) -> None:
    database.execute(PARTITIONED)
    outbox = Outbox(database, way)
    outbox.init()
    write(database, 1, day=1)
    before = outbox.confirmed
    error = outbox.failure()
    assert "partitioned" in str(error)
    assert "pgoutput" in error.hint
    assert outbox.confirmed == before
