"""`walrelay find`: what it says of events, and whether that is so in the database and in the topics."""

import json
import uuid
from typing import Any

from tests.acceptance.adopting import Adopted, insert, relayed
from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, event_id, header
from tests.brokers.nats import NatsStream, request
from tests.servers.database import Database
from tests.servers.nats import NatsServer
from tests.servers.topics import Kafka

Row = dict[str, Any]


def found(deployment: Deployment, *question: str, exit_code: int = 0) -> list[Row]:
    rows: list[Row] = json.loads(deployment.command("find", "--json", *question, exit_code=exit_code))["rows"]
    return rows


def test_a_published_event_is_shown_with_partition_and_offset(deployment: Deployment) -> None:
    deployment.start()
    ids = [deployment.write(payload)[0] for payload in ("1", "2", "3")]
    deployment.catch_up()
    received = {event_id(each): each for each in deployment.delivered()}
    (row,) = found(deployment, ids[1])
    assert (row["state"], row["read_back"], row["in_table"]) == ("published", "done", True)
    message = received[ids[1]]
    (copy,) = row["copies"]
    assert (copy["sink"], copy["topic"]) == ("kafka", deployment.topic)
    assert (copy["partition"], copy["offset"]) == (message.partition, message.offset)
    assert (copy["position"], copy["replayed"]) == (header(message, "position"), False)
    told = deployment.command("find", ids[1])
    assert f"{deployment.topic} [{message.partition}] at offset {message.offset}" in told
    (short,) = found(deployment, ids[1], "--no-read-back")
    assert (short["state"], short["copies"], short["read_back"]) == ("published", [], "not asked")
    assert [each["id"] for each in found(deployment, "--since", "1h", "--no-read-back")] == ids[::-1]


def test_what_waits_is_told_from_what_was_published(deployment: Deployment) -> None:
    relay = deployment.start()
    (before,) = deployment.write("1")
    deployment.catch_up()
    relay.stop()
    (behind,) = deployment.write("2")
    rows = {each["id"]: each for each in found(deployment, before, behind)}
    assert (rows[behind]["state"], rows[behind]["copies"]) == ("waiting", [])
    assert "no relay reads the slot" in rows[behind]["why"]
    assert (rows[before]["state"], len(rows[before]["copies"])) == ("published", 1)
    deployment.command("pause", "--reason", "a test")
    (paused,) = found(deployment, behind, "--no-read-back")
    assert ("paused by" in paused["why"], "a test" in paused["why"]) == (True, True)
    deployment.command("resume")
    deployment.start()
    deployment.catch_up()
    assert [each["state"] for each in found(deployment, "--aggregate", "thing", "a")] == ["published"] * 2


def test_a_row_that_is_gone_is_found_in_the_topic_and_one_that_never_was_is_not(deployment: Deployment) -> None:
    deployment.start()
    (kept,) = deployment.write("1")
    ((gone,),) = deployment.database.execute("SELECT walrelay.emit_and_delete('thing', 'a', 'Happened', '2')")
    deployment.catch_up()
    nowhere = str(uuid.uuid4())
    rows = {each["id"]: each for each in found(deployment, kept, str(gone), nowhere, exit_code=1)}
    assert (rows[str(gone)]["state"], rows[str(gone)]["in_table"]) == ("published", False)
    assert len(rows[str(gone)]["copies"]) == 1
    assert (rows[nowhere]["state"], rows[nowhere]["read_back"]) == ("unknown", "done")
    assert "no such row" in rows[nowhere]["why"]
    (unread,) = found(deployment, str(gone), "--no-read-back", exit_code=1)
    assert unread["state"] == "unknown"


def test_dead_letters_dropped_events_and_replays_are_told_apart(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    other = kafka.create_topic()
    deployment = deploy(
        database,
        kafka,
        topic,
        refusals={"policy": "dead_letter"},
        routes=[
            {"name": "no-noise", "when": {"payload.kind": "noise"}, "drop": True},
            {"name": "copied", "when": {"payload.kind": "both"}, "topic": other, "continue": True},
            {"name": "rest"},
        ],
    )
    deployment.start()
    large = json.dumps({"kind": "x" * 2_000_000})
    noise, both, lost = deployment.write('{"kind": "noise"}', '{"kind": "both"}', large)
    deployment.catch_up()
    rows = {each["id"]: each for each in found(deployment, "--aggregate", "thing", "a")}
    assert (rows[noise]["state"], rows[noise]["why"]) == ("dropped", "the rule 'no-noise' drops it")
    assert {each["topic"] for each in rows[both]["copies"]} == {topic, other}
    letter = rows[lost]["dead_letter"]
    assert (rows[lost]["state"], letter["status"], letter["error"]) == ("dead_letter", "waiting", "too_large")
    assert f"walrelay dlq show {letter['letter']}" in rows[lost]["why"]
    database.execute("DELETE FROM outbox WHERE id = %s", [lost])
    (without,) = found(deployment, lost)
    assert (without["state"], without["in_table"], without["type"]) == ("dead_letter", False, "Happened")
    deployment.command("replay", "--id", both)
    (again,) = found(deployment, both)
    assert sorted(each["replayed"] for each in again["copies"]) == [False, False, True, True]


def test_of_several_sinks_each_says_whether_it_can_be_read(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    sinks = {
        "log": {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers},
        "disk": {"kind": "stdout"},
    }
    deployment = deploy(database, kafka, topic, sink=None, sinks=sinks, route={"sink": ["log", "disk"]})
    deployment.start()
    (id_,) = deployment.write("1")
    deployment.catch_up()
    (row,) = found(deployment, id_)
    assert row["state"] == "published"
    assert [(each["sink"], each["topic"]) for each in row["copies"]] == [("log", topic)]
    assert row["read_back"] == f"not possible for disk:{topic}: a sink of kind 'stdout' cannot be read back"


def test_the_messages_of_debeziums_router_are_found(adopted: Adopted, topic: str) -> None:
    options = {"route.topic.replacement": topic}
    deployment = adopted("debezium", debezium=options, route=None)
    id_ = uuid.uuid4()
    with relayed(deployment) as connection:
        insert(connection, "outbox", id=id_, aggregatetype="order", aggregateid="42", type="Placed", payload="{}")
        connection.commit()
    (row,) = found(deployment, "--aggregate", "order", "42")
    assert (row["id"], row["type"], row["state"]) == (str(id_), "Placed", "published")
    assert [each["topic"] for each in row["copies"]] == [topic]


def test_messages_in_a_stream_of_nats_are_found(deploy: Deploy, database: Database, stoppable_nats: NatsServer) -> None:
    stream = NatsStream(stoppable_nats)
    deployment = deploy(database, stream, stream.topic)
    deployment.start()
    ids = [deployment.write(str(number))[0] for number in range(3)]
    deployment.catch_up()
    numbers = {event_id(each): each.offset + 1 for each in deployment.delivered()}
    consumers = consumers_of(stoppable_nats, stream)  # one that this test read by
    for id_ in ids:
        (row,) = found(deployment, id_)
        assert (row["state"], row["read_back"]) == ("published", "done")
        assert [(each["sink"], each["topic"], each["offset"]) for each in row["copies"]] == [
            ("nats", stream.topic, numbers[id_])
        ]
    assert json.loads(deployment.command("audit", "--json"))["messages"] == 3
    assert consumers_of(stoppable_nats, stream) <= consumers


def consumers_of(server: NatsServer, stream: NatsStream) -> set[str]:
    return {*request(server.url, f"CONSUMER.NAMES.{stream.topic}")["consumers"]}
