"""From Debezium Server to walrelay and back, as docs/from-debezium.md has it: nothing lost, nothing twice."""

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import SLOT, Deployment
from tests.acceptance.relay_process import WALRELAY
from tests.acceptance.test_debezium import make_table
from tests.acceptance.writing import Writers
from tests.golden.test_debezium_golden import OPTIONS
from tests.servers.database import Database
from tests.servers.debezium import DebeziumServer
from tests.servers.topics import Kafka, Received
from tests.servers.waiting import wait_until
from walrelay.ddl import script

_ROUTER = "debezium.transforms.outbox."


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """With one partition: the order of all messages is compared."""
    return kafka.create_topic()


PLAIN = {
    "debezium.format.key": "simplestring",
    "debezium.format.value": "simplestring",
    "debezium.format.header.schemas.enable": "false",
}


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("headers", {}),
        ("envelope", {"debezium.format.schemas.enable": "false"}),
        ("key by type", PLAIN),
    ],
    ids=["as it comes", "without schemas", "plain"],
)
def test_debezium_server_and_the_relay_publish_the_same(
    deploy: Deploy, database: Database, kafka: Kafka, tmp_path: Path, name: str, formats: dict[str, str]
) -> None:
    """Beside each other, each with a slot and a topic of its own, on the rows of tests/golden/debezium."""
    theirs, ours = kafka.create_topic(), kafka.create_topic()
    rows = make_table(database, "outbox")
    options = {_ROUTER + option: value for option, value in OPTIONS[name]["router"].items()}
    slot = {"debezium.source.slot.name": f"debezium_{database.name}", _ROUTER + "route.topic.replacement": theirs}
    server = DebeziumServer(tmp_path / "debezium", database, kafka, options | formats | slot)
    try:
        sections = migrated(server)
        del sections["source"]
        sections["debezium"]["route.topic.replacement"] = ours
        deployment = deploy(database, kafka, ours, **sections, route=None)
        begin(server, database)
        deployment.start()
        database.execute(rows)
        deployment.catch_up()
        expected = kafka.consume(theirs, count=8)
    finally:
        server.stop(signal.SIGKILL)
    found = deployment.delivered()
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert (mine.key, mine.value, compared(mine)) == (other.key, other.value, compared(other))


def compared(message: Received) -> list[tuple[str, bytes | None]]:
    """The headers without those that differ: the run's id, and walrelay's own."""
    return [each for each in message.headers if each[0] not in ("position", "__debezium.context.runId")]


@pytest.fixture
def debezium(tmp_path: Path, database: Database, kafka: Kafka, topic: str) -> Iterator[DebeziumServer]:
    """Not started; its slot has the name that the tests' database deletes."""
    database.execute(script("outbox", table="outbox"))
    server = DebeziumServer(
        tmp_path / "debezium",
        database,
        kafka,
        {
            "debezium.source.slot.name": f"{SLOT}_{database.name}",
            "debezium.source.offset.flush.interval.ms": "1000",
            _ROUTER + "route.by.field": "aggregate_type",
            _ROUTER + "table.field.event.key": "aggregate_id",
            _ROUTER + "route.topic.replacement": topic,
            **PLAIN,
        },
    )
    yield server
    server.stop(signal.SIGKILL)


def migrated(debezium: DebeziumServer) -> dict[str, Any]:
    """The sections of the settings that `walrelay migrate debezium` prints, without the connection."""
    command: list[str | Path] = [WALRELAY, "migrate", "debezium", debezium.properties]
    done = subprocess.run(command, capture_output=True, check=True)
    sections: dict[str, Any] = yaml.safe_load(done.stdout)
    sections["source"].pop("dsn")
    return sections


def event(message: Received) -> str:
    """The id: Debezium's JsonConverter writes it with quotes."""
    return str(json.loads(dict(message.headers)["id"] or b""))


def assert_once_and_in_order(deployment: Deployment) -> None:
    messages = deployment.delivered()
    rows = Counter(str(row) for (row,) in deployment.database.execute("SELECT id FROM outbox"))
    assert Counter(map(event, messages)) == rows
    numbers = dict[bytes | None, int]()
    for message in messages:
        number = json.loads(message.value or b"")["number"]
        assert number == numbers.get(message.key, 0) + 1
        numbers[message.key] = number


def begin(debezium: DebeziumServer, database: Database) -> None:
    """Returns when it streams: rows from before its first slot are not its own."""
    debezium.start()
    reading = "SELECT 1 FROM pg_replication_slots WHERE database = current_database() AND active"
    wait_until(lambda: database.execute(reading), 60, "Debezium to stream")


def stored(database: Database, slot: str, published: int) -> dict[str, Any]:
    """Debezium's offset when it has published so many rows of those that wait."""
    rows = database.execute(
        "SELECT (lsn - '0/0')::int8, xid::text::int8, get_byte(data, 0)"
        " FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names',"
        " 'dbz_publication')",
        [slot],
    )
    committed, seen, found = None, list[int](), dict[str, Any]()
    for lsn, xid, kind in rows:
        if kind == ord("C"):
            committed = lsn
        if kind == ord("I") and len(seen) < published:
            seen.append(lsn)
            found = {"lsn_proc": lsn, "messageType": "INSERT", "lsn_commit": committed, "lsn": lsn, "txId": xid}
            found["lsn_events_processed"] = seen.count(lsn)
    assert len(seen) == published
    return found


def take_over(database: Database, slot: str, published: int, tmp_path: Path) -> Path:
    """A file with the offset, as Kafka Connect answers."""
    answer = {"offsets": [{"partition": {"server": "app"}, "offset": stored(database, slot, published)}]}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(answer))
    return file


@pytest.fixture
def published_by_debezium(database: Database) -> list[str]:
    """Slot and publication as Debezium makes them, and three transactions; returns the ids in order. The four rows of
    the second have one LSN.
    """
    database.execute(script("outbox", table="outbox"))
    database.execute("CREATE PUBLICATION dbz_publication FOR TABLE public.outbox")
    database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [f"{SLOT}_{database.name}"])
    row = "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload) SELECT 'a', n, 'T', '{}' FROM"
    database.execute(f"{row} generate_series(1, 3) n")
    copied = "COPY outbox (aggregate_type, aggregate_id, type, payload) FROM STDIN"
    with database.connect() as connection, connection.cursor().copy(copied) as copy:
        for n in range(4, 8):
            copy.write_row(("a", str(n), "T", "{}"))
    database.execute(f"{row} generate_series(8, 9) n")
    return [id_ for (id_,) in database.execute("SELECT id::text FROM outbox ORDER BY aggregate_id::int")]


SETTINGS: dict[str, Any] = {
    "source": {"publication": "dbz_publication"},
    "debezium": {"route.by.field": "aggregate_type", "table.field.event.key": "aggregate_id", "topic.prefix": "app"},
    "route": None,
}


@pytest.mark.parametrize(
    ("published", "keep", "begins", "said"),
    [
        (3, "slot", 3, "3 of the records that wait in it are published"),
        (5, "file", 5, "is published up to record 2 of 4; the relay begins behind that one"),
        (5, "slot", 3, "is published up to record 2 of 4, and will be published again from its first"),
        (9, "slot", 9, "9 of the records that wait in it are published"),
    ],
)
def test_the_stored_offset_says_where_the_relay_begins(
    deploy: Deploy,
    database: Database,
    kafka: Kafka,
    topic: str,
    tmp_path: Path,
    published_by_debezium: list[str],
    published: int,
    keep: str,
    begins: int,
    said: str,
) -> None:
    sections = SETTINGS | {"debezium": SETTINGS["debezium"] | {"route.topic.replacement": topic}}
    position = {"keep": keep, "path": str(tmp_path / "position")}
    deployment = deploy(database, kafka, topic, **sections, position=position)
    file = take_over(database, deployment.slot_name, published, tmp_path)
    before = deployment.slot.confirmed
    assert "would move" in deployment.command("migrate", "offset", str(file), "--dry-run")
    assert deployment.slot.confirmed == before
    assert said in deployment.command("migrate", "offset", str(file))
    assert deployment.slot.confirmed > before
    again = deployment.command("migrate", "offset", str(file))  # no harm in it
    assert "stays at" in again
    relay = deployment.start()
    (later,) = deployment.write("1")
    deployment.catch_up()
    assert deployment.delivered_ids() == [*published_by_debezium[begins:], later]
    assert "Debezium still runs, or a relay" in deployment.said("migrate", "offset", str(file), exit_code=1)
    relay.stop()


def test_an_offset_of_another_slot_is_refused(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, tmp_path: Path, published_by_debezium: list[str]
) -> None:
    deployment = deploy(database, kafka, topic, **SETTINGS)
    file = take_over(database, deployment.slot_name, 3, tmp_path)
    text = file.read_text()
    xid = json.loads(text)["offsets"][0]["offset"]["txId"]
    file.write_text(text.replace(f'"txId": {xid}', f'"txId": {xid + 1000}'))
    said = deployment.said("migrate", "offset", str(file), exit_code=1)
    assert f"of transaction {xid + 1000}, which does not wait in slot" in said
    beyond = {"lsn_commit": 2**62, "lsn": 2**62, "txId": xid, "messageType": "COMMIT"}
    file.write_text(json.dumps({"offsets": [{"partition": {"server": "app"}, "offset": beyond}]}))
    said = deployment.said("migrate", "offset", str(file), exit_code=1)
    assert "the offset names a commit that ends at 40000000/0, which does not wait in slot" in said
    file.write_text(text.replace('"app"', '"other"'))
    assert "there are offsets of 'other', and none of 'app'" in deployment.said(
        "migrate", "offset", str(file), exit_code=1
    )


def assert_only_the_last_of_debezium_are_repeated(deployment: Deployment, before: int) -> None:
    """`before`: how many messages Debezium had published. What it published after its last offset comes again, as when
    Debezium itself is started again.
    """
    found = [event(message) for message in deployment.delivered()]
    repeated = [event for event, count in Counter(found).items() if count > 1]
    assert [*dict.fromkeys(found)][before - len(repeated) : before] == repeated
    assert {str(row) for (row,) in deployment.database.execute("SELECT id FROM outbox")} == {*found}


@pytest.mark.chaos
@pytest.mark.parametrize("how", ["at rest", "under load", "killed"])
def test_debezium_is_taken_over_and_goes_on_afterwards(
    deploy: Deploy,
    database: Database,
    kafka: Kafka,
    topic: str,
    debezium: DebeziumServer,
    tmp_path: Path,
    how: str,
) -> None:
    """Writers go on from Debezium's end to its new beginning."""
    kept = {"keep": "file", "path": str(tmp_path / "position")}
    begin(debezium, database)
    first = Writers(database, seed=11, pause=0.01)
    with first as writers:
        wait_until(lambda: len(kafka.read_all(topic)) > 300, 60, "Debezium to publish")
        if how == "at rest":
            writers.stop()
            everything_is_stored(debezium, database)
        debezium.stop(signal.SIGKILL if how == "killed" else signal.SIGTERM)
        before = len(kafka.read_all(topic))
    with Writers(database, seed=12, pause=0.01) as writers:
        deployment = deploy(database, kafka, topic, **migrated(debezium), route=None, position=kept)
        deployment.command("migrate", "offset", str(debezium.offsets))
        relay = deployment.start()
        writers.wait_for_more(100)
        relay.stop()
        by_both = len(kafka.read_all(topic))
        debezium.offsets.unlink()
        begin(debezium, database)
        writers.wait_for_more(100)
    rows = {str(row) for (row,) in database.execute("SELECT id FROM outbox")}
    wait_until(lambda: {*map(event, kafka.read_all(topic))} >= rows, 60, "the rest to be published")
    debezium.stop()
    assert before < by_both < len(rows)
    if how == "at rest":
        assert_once_and_in_order(deployment)
    else:
        assert_only_the_last_of_debezium_are_repeated(deployment, before)


def everything_is_stored(debezium: DebeziumServer, database: Database) -> None:
    """Returns when the offset is that of a last row, whose xmin is no savepoint's."""
    ((xid,),) = database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)"
        """ VALUES ('thing', 'last', 'Happened', '{"number": 1}') RETURNING xmin::text::int8"""
    )
    wait_until(lambda: f'"txId":{xid}'.encode() in debezium.offsets.read_bytes(), 60, "the offset to be stored")
