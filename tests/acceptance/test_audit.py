"""`walrelay audit`: what it finds in topics that are as they should be, and in topics that are not."""

import json
import re
import secrets
import subprocess
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, event_id, header
from tests.acceptance.relay_process import WALRELAY
from tests.servers.database import Database
from tests.servers.topics import QUIET, Kafka
from tests.servers.waiting import wait_until


def audited(deployment: Deployment, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what it found."""
    code, output = told(deployment, *options, "--json")
    found: dict[str, Any] = json.loads(output)
    assert found["ok"] == (code == 0)
    return code, found


def told(deployment: Deployment, *options: str) -> tuple[int, str]:
    """The exit code, and the report for people."""
    done = subprocess.run(
        [WALRELAY, "audit", "--config", deployment.config, *options], capture_output=True, text=True, timeout=60
    )
    assert done.stdout, done.stderr
    return done.returncode, done.stdout


@pytest.fixture
def exactly_once(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    """Two events, published by a relay that runs on."""
    deployment = deploy(database, kafka, topic, delivery="exactly_once")
    deployment.start()
    deployment.write("1", "2")
    deployment.catch_up()
    return deployment


@pytest.fixture
def published(deployment: Deployment) -> Deployment:
    """Six events of two keys, published by a relay that runs on."""
    deployment.start()
    deployment.write("1", "2", "3", key="a")
    deployment.write("4", "5", "6", key="b")
    deployment.catch_up()
    return deployment


def pass_over(deployment: Deployment, *payloads: str, keys: str = "aaaaaa") -> list[str]:
    """Events that the relay never publishes, because somebody moves the slot; it runs again afterwards."""
    deployment.relays[-1].stop()
    ids = [deployment.write(payload, key=key)[0] for payload, key in zip(payloads, keys, strict=False)]
    deployment.database.execute(
        "SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())", [deployment.slot_name]
    )
    deployment.database.execute(
        "UPDATE walrelay.relays r SET position = confirmed_flush_lsn FROM pg_replication_slots s"
        " WHERE s.slot_name = %s AND r.slot_name = s.slot_name",
        [deployment.slot_name],
    )
    deployment.start()
    deployment.catch_up()
    return ids


def delete_before(deployment: Deployment, topic: str, partition: int, offset: int) -> None:
    """What the broker's retention does."""
    admin, place = deployment.kafka.admin, TopicPartition(topic, partition, offset)
    admin.delete_records([place])[place].result(10)


def produce(deployment: Deployment, *events: tuple[str, str, str], transaction: str = "") -> None:
    """Messages by hand: id, key and position; `transaction`: commit or abort."""
    options = {"transactional.id": uuid.uuid4().hex} if transaction else {}
    producer = Producer({**QUIET, "bootstrap.servers": deployment.kafka.bootstrap_servers, **options})
    if transaction:
        producer.init_transactions(10)
        producer.begin_transaction()
    for identity, key, position in events:
        headers: dict[str, str | bytes | None] = {"id": identity, "type": "Happened", "position": position}
        producer.produce(deployment.topic, b"{}", key, partition=0, headers=headers)
    producer.flush(10)
    if transaction:
        (producer.commit_transaction if transaction == "commit" else producer.abort_transaction)(10)


def test_a_topic_that_has_every_row_in_order_is_well(published: Deployment) -> None:
    code, report = told(published)
    assert code == 0
    assert "6 rows to check" in report
    assert "all 6 rows are in the topics" in report
    assert "first deliveries are in commit order in each partition" in report
    assert report.endswith("all is well\n")
    _, found = audited(published)
    assert (found["rows"], found["messages"], found["missing"], found["misplaced"]) == (6, 6, 0, 0)


def test_a_row_that_the_relay_never_published_is_missing_and_the_command_that_is_told_publishes_it(
    published: Deployment,
) -> None:
    (lost,) = pass_over(published, "7")
    code, report = told(published)
    assert code == 1
    assert "1 row of 7" in report
    assert f"{lost}  20" in report
    assert f"for {published.topic}" in report
    command = re.search(r"to publish them: walrelay (.*)", report)
    assert command is not None
    published.command(*command[1].split())
    code, found = audited(published)
    assert (code, found["missing"], found["again"]) == (0, 0, 1)


def test_a_row_whose_record_the_broker_has_deleted_is_missing_and_the_retention_is_named(
    published: Deployment,
) -> None:
    first = next(message for message in published.delivered() if message.offset == 0)
    delete_before(published, first.topic, first.partition, 1)
    code, report = told(published)
    assert code == 1
    assert event_id(first) in report
    assert f"[{first.partition}] begins at offset 1" in report


def test_a_repetition_is_counted_and_named_and_allowed_at_least_once(published: Deployment) -> None:
    again = next(message for message in published.delivered() if message.partition == 0 or message.key == b"a")
    copy = (event_id(again), "a", header(again, "position"))
    produce(published, copy, copy)
    code, report = told(published)
    assert code == 0
    assert "1 event 3 times; at-least-once delivery allows that" in report
    assert report.count(event_id(again)) == 2
    assert audited(published)[1]["repeated"] == {"3": 1}


def test_a_repetition_is_a_fault_where_delivery_is_exactly_once(exactly_once: Deployment) -> None:
    assert audited(exactly_once)[0] == 0
    (message, *_) = exactly_once.delivered()
    produce(exactly_once, (event_id(message), "a", header(message, "position")))
    code, found = audited(exactly_once)
    assert (code, found["faults"]) == (1, ["1 repeated"])


@pytest.mark.parametrize(("keys", "in_key"), [("ab", 0), ("aa", 1)])
def test_a_swap_in_the_order_is_found_and_whether_it_is_within_a_key(
    published: Deployment, keys: str, in_key: int
) -> None:
    first, second = pass_over(published, "7", "8", keys=keys)
    produce(published, (second, keys[1], "F/20:0"), (first, keys[0], "F/10:0"))
    code, found = audited(published)
    assert (code, found["faults"]) == (1, ["1 out of order"])
    (listed,) = found["misplaced_listed"]
    assert (listed["found"]["id"], listed["behind"], listed["key"]) == (first, "F/20:0", in_key == 1)
    assert found["misplaced_in_key"] == in_key
    assert f"{first}  F/10:0" in told(published)[1]


def test_dead_letters_are_accounted_for_and_named(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> None:
    deployment = deploy(database, kafka, topic, refusals={"policy": "dead_letter"})
    deployment.start()
    deployment.write("1")
    (letter,) = deployment.write("2", topic="not/a/topic")
    deployment.catch_up()
    code, report = told(deployment)
    assert code == 0
    assert "1 dead letter (1 waiting), not missing" in report
    assert re.search(
        rf"{letter} .* waiting +(invalid|unknown)_topic", report
    )  # a broker that just started says unknown


def test_dead_letters_that_are_only_in_a_topic_are_accounted_for(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    letters = kafka.create_topic()
    policy = {"policy": "dead_letter", "dead_letters": "topic", "dead_letter_topic": letters}
    deployment = deploy(database, kafka, topic, refusals=policy)
    deployment.start()
    deployment.write("2", topic="not/a/topic")
    deployment.catch_up()
    code, found = audited(deployment)
    assert (code, found["missing"], found["set_aside"]) == (0, 0, {"in a topic": 1})
    kafka.delete_topics(letters)


def test_rows_that_were_cleaned_up_are_only_noted(published: Deployment) -> None:
    published.database.execute("DELETE FROM outbox WHERE aggregate_id = 'a'")
    wait_until(lambda: audited(published)[1]["unknown"] == 3, 20, "commits to be so old that their rows must be seen")
    code, found = audited(published)
    assert (code, found["rows"], found["missing"]) == (0, 3, 0)


def test_replayed_messages_are_counted_and_not_judged(published: Deployment) -> None:
    published.command("replay", "--all")
    published.write("7", "8", key="a")
    published.catch_up()
    code, found = audited(published)
    assert (code, found["rows"], found["again"], found["repeated"], found["misplaced"]) == (0, 8, 6, {}, 0)


def test_rows_of_a_backfill_are_not_judged_by_their_order(deployment: Deployment) -> None:
    deployment.write_rows(50)
    deployment.command("drop", "--yes")
    deployment.command("init", "--backfill")
    deployment.start()
    deployment.write("1")
    deployment.catch_up()
    code, found = audited(deployment)
    assert (code, found["rows"], found["again"], found["misplaced"]) == (0, 51, 50, 0)


def test_an_aborted_transaction_in_the_topic_is_neither_an_arrival_nor_a_repetition(exactly_once: Deployment) -> None:
    (message, *_) = exactly_once.delivered()
    produce(exactly_once, (event_id(message), "a", header(message, "position")), transaction="abort")
    assert audited(exactly_once)[0] == 0
    before = len(exactly_once.delivered())
    (lost,) = exactly_once.database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, created_at)"
        " VALUES ('thing', 'a', 'Happened', now() - interval '30 min') RETURNING id::text"
    )[0]
    exactly_once.catch_up()
    assert len(exactly_once.delivered()) == before + 1
    arrived = next(message for message in exactly_once.delivered() if event_id(message) == lost)
    delete_before(exactly_once, arrived.topic, arrived.partition, arrived.offset + 1)
    produce(exactly_once, (lost, "a", "F/10:0"), transaction="abort")
    code, found = audited(exactly_once)
    assert code == 1
    assert lost in {each["id"] for each in found["missing_listed"]}


def test_what_the_relay_has_not_confirmed_is_not_judged(published: Deployment) -> None:
    published.relays[-1].stop()
    published.write("7", "8")
    code, found = audited(published)
    assert (code, found["missing"]) == (0, 0)
    assert found["unconfirmed"] >= 2
    assert found["rows"] + found["unconfirmed"] == 8
    assert "no relay reads the slot" in found["why"]


def test_a_period_judges_its_rows_and_no_others(published: Deployment) -> None:
    pass_over(published, "7")
    published.database.execute("UPDATE outbox SET created_at = '2026-01-01' WHERE payload = '7'")
    published.catch_up()
    assert audited(published)[0] == 0
    assert audited(published, "--from", "2026-01-01T00:00Z", "--to", "2026-01-02T00:00Z")[0] == 1
    code, found = audited(published, "--from", "2025-01-01", "--to", "2025-02-01")
    assert (code, found["rows"], found["unknown"]) == (0, 0, 0)


def test_another_topic_is_read_as_well_if_it_is_named(published: Deployment) -> None:
    """As after a change of the rules: the rows went to where the rules of then said."""
    other = published.kafka.create_topic()
    published.write_settings(route={"topic": other})
    assert audited(published)[0] == 1
    assert audited(published, "--topic", published.topic)[0] == 0
    published.kafka.delete_topics(other)


def test_a_sink_that_cannot_read_says_so(published: Deployment) -> None:
    published.config.write_text(published.config.read_text().replace("kind: kafka", "kind: stdout"))
    lines = [line for line in published.config.read_text().splitlines() if "bootstrap_servers" not in line]
    published.config.write_text("\n".join(lines))
    done = subprocess.run([WALRELAY, "audit", "--config", published.config], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "a sink of kind 'stdout' cannot read them" in done.stderr


def test_rows_that_rules_make_several_messages_of_are_counted_in_each_topic(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    routes = [
        {"name": "copy", "when": {"payload": "2"}, "topic": f"{topic}.copy", "continue": True},
        {"name": "noise", "when": {"payload": "3"}, "drop": True},
        {"name": "others", "topic": topic},
    ]
    kafka.create_topic(f"{topic}.copy")
    deployment = deploy(database, kafka, topic, routes=routes)
    deployment.start()
    deployment.write("1", "2", "3")
    deployment.catch_up()
    code, found = audited(deployment)
    assert (code, found["rows"], found["due"], found["messages"], found["unknown"]) == (0, 3, 3, 3, 0)
    _, report = told(deployment)
    assert "3 messages of 3 rows to check\n" in report
    assert "nothing: all 3 messages are in the topics\n" in report
    lost, _ = pass_over(deployment, "2", "3")
    code, found = audited(deployment)
    assert (code, found["rows"], found["due"], found["missing"], found["removed"]) == (1, 5, 5, 2, 0)
    _, report = told(deployment)
    assert "missing       2 messages of 5\n" in report
    assert f"to publish them: walrelay replay --id {lost}\n" in report
    assert {(each["id"], each["topic"]) for each in found["missing_listed"]} == {(lost, topic), (lost, f"{topic}.copy")}
    deployment.command("replay", "--id", lost)
    assert audited(deployment)[0] == 0
    kafka.delete_topics(f"{topic}.copy")


def test_the_rows_of_a_tenant_are_checked_and_no_others(published: Deployment) -> None:
    emitted = "SELECT walrelay.emit('thing', 'a', 'Happened', '{}', tenant_id => %s)"
    for tenant in ("acme", "globex", "acme"):
        published.database.execute(emitted, [tenant])
    published.catch_up()
    code, found = audited(published, "--tenant", "acme")
    assert (code, found["rows"], found["missing"], found["unknown"]) == (0, 2, 0, 0)
    assert audited(published, "--tenant", "acme", "--tenant", "globex")[1]["rows"] == 3
    (lost,) = pass_over(published, "7")
    published.database.execute("UPDATE outbox SET tenant_id = 'globex' WHERE id = %s", [lost])
    produce(published, (str(uuid.uuid4()), "a", "0/1:0"))
    assert audited(published, "--tenant", "acme")[0] == 0, "that row is another tenant's"
    code, report = told(published, "--tenant", "globex")
    assert (code, f"walrelay replay --id {lost}" in report) == (1, True)
    assert "unknown       not looked for: a message does not say its tenant\n" in report
    published.write_settings(outbox={"columns": {"tenant_id": None}})
    assert "--tenant needs a column for tenant_id" in published.said("audit", "--tenant", "acme", exit_code=1)


def test_rows_that_the_server_withholds_by_the_rules_are_not_missing(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    if database.server.major < 15:
        pytest.skip("publications have row filters since PostgreSQL 15")
    noise = {"name": "noise", "when": {"aggregate_id": "noise"}, "drop": True}
    deployment = deploy(database, kafka, topic, routes=[noise, {"name": "others"}])
    assert "row filter: noise" in deployment.command("init", "--push-down")
    relay = deployment.start()
    deployment.write("1", "2", key="a")
    deployment.write("3", key="noise")
    deployment.write("4", key="a")
    deployment.catch_up()
    relay.stop()
    assert relay.events("dropped by a rule") == [], "the row never left the server"
    code, found = audited(deployment)
    assert (code, found["messages"], found["missing"]) == (0, 3, 0)
    deployment.write_settings(routes=[{"name": "others"}])
    assert "withholds rows that no rule drops" in deployment.said("run", exit_code=1)
    assert "row filter: none" in deployment.command("init", "--push-down")
    deployment.start()
    code, found = audited(deployment)
    assert (code, found["missing"]) == (1, 1), "the rules of today publish it"


def test_a_dead_letter_explains_a_missing_message_only_in_its_topic(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    refused, others = {"name": "refused", "topic": f"{topic}.refused"}, {"name": "others", "topic": topic}
    deployment = deploy(database, kafka, topic, routes=[refused], refusals={"policy": "dead_letter"})
    kafka.create_topic(f"{topic}.refused", config={"max.message.bytes": "200"})
    relay = deployment.start()
    (id_,) = deployment.write(json.dumps(secrets.token_hex(1000)))
    deployment.catch_up()
    relay.stop()
    deployment.write_settings(routes=[{**refused, "continue": True}, others])
    deployment.start()
    deployment.catch_up()
    code, found = audited(deployment)
    assert (code, found["set_aside"], found["missing"]) == (1, {"waiting": 1}, 1)
    assert [(each["id"], each["topic"]) for each in found["missing_listed"]] == [(id_, topic)]
    deployment.write_settings(routes=[others])
    code, found = audited(deployment)
    assert (code, found["set_aside"], found["missing"]) == (1, {}, 1), "today's rules do not have that topic"
    code, found = audited(deployment, "--topic", f"{topic}.refused")
    assert (code, found["set_aside"], found["missing"]) == (0, {"waiting": 1}, 0)
    kafka.delete_topics(f"{topic}.refused")
