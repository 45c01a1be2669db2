"""`walrelay replay`: rows of the table published again, and nothing else."""

import json
import re
from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.acceptance.backfill_process import BackfillProcess
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment, event_id, header
from tests.acceptance.replaying import publish_orders, replayed, replays, values
from tests.acceptance.test_refusals import configure
from tests.conftest import PostgresMaker
from tests.servers.database import Database
from tests.servers.topics import Kafka
from tests.servers.waiting import wait_until


@pytest.fixture
def published(deployment: Deployment) -> Deployment:
    publish_orders(deployment)
    return deployment


FILTERS = [
    (["--all"], {b"1", b"2", b"3", b"4"}),
    (["--from", "2026-11-20T11:00:00Z"], {b"2", b"3", b"4"}),
    (["--to", "2026-11-20T12:00:00Z"], {b"1", b"2"}),
    (["--from", "2026-11-20T13:30:00+02:00", "--to", "2026-11-20T13:00Z"], {b"3"}),
    (["--aggregate", "order"], {b"1", b"2", b"3"}),
    (["--aggregate", "order:1"], {b"1", b"3"}),
    (["--aggregate", "order:2", "--aggregate", "customer"], {b"2", b"4"}),
    (["--type", "Placed", "--type", "Joined"], {b"1", b"2", b"4"}),
    (["--type", "Placed", "--aggregate", "order:1"], {b"1"}),
]


def test_the_rows_that_all_filters_match_are_published_again(published: Deployment) -> None:
    before = Counter[bytes | None]()
    for filters, expected in FILTERS:
        told = published.command("replay", *filters)
        after = Counter(message.value for message in replayed(published))
        assert after - before == Counter(expected), filters
        assert re.search(rf"published {len(expected)} rows? again", told)
        before = after


def test_rows_are_found_by_their_ids_and_what_was_not_found_is_named(published: Deployment) -> None:
    (first,), (second,) = published.database.execute("SELECT id::text FROM outbox ORDER BY created_at LIMIT 2")
    absent = "00000000-0000-0000-0000-000000000001"
    named = ("--id", first, "--id", second.upper(), "--id", absent, "--id", "no-uuid")
    told = published.command("replay", *named, exit_code=1)
    assert values(replayed(published)) == {b"1", b"2"}
    assert f"{absent}: the table has no such row" in told
    assert "no-uuid: the table has no such row" in told
    assert second not in told.lower()


def test_rows_of_a_tenant_are_found_by_the_column_that_has_the_role(published: Deployment) -> None:
    published.database.execute("UPDATE outbox SET tenant_id = CASE payload::text WHEN '1' THEN 'acme' ELSE 'other' END")
    published.catch_up()
    assert "published 1 row again" in published.command("replay", "--tenant", "acme", "--type", "Placed")
    assert values(replayed(published)) == {b"1"}
    assert "no row matches" in published.said("replay", "--tenant", "ACME", exit_code=1)
    published.write_settings(outbox={"columns": {"tenant_id": None}})
    assert "--tenant needs a column for tenant_id" in published.said("replay", "--tenant", "acme", exit_code=1)


def test_rows_are_found_by_the_positions_that_their_messages_have(published: Deployment) -> None:
    first, second, third = published.write("5", "6", "7")
    published.catch_up()
    places = {event_id(message): header(message, "position") for message in published.delivered()}
    published.command("replay", "--position", f"{places[second]}..{places[third]}")
    assert values(replayed(published)) == {b"6", b"7"}
    transaction = places[first].partition(":")[0]
    published.database.execute("DELETE FROM outbox WHERE id = %s", [second])
    told = published.command("replay", "--position", transaction, exit_code=1)
    assert Counter(message.value for message in replayed(published)) == {b"5": 1, b"6": 1, b"7": 2}
    assert f"{second} at {places[second]}: the table has no such row" in told


def test_positions_that_no_message_has_are_an_error_with_a_way_on(published: Deployment) -> None:
    process = BackfillProcess(published, "replay", "--position", "0/1..0/2")
    assert process.wait() == 1
    assert "no message has a position in 0/1..0/2" in process.output()


def test_without_a_filter_nothing_is_published(published: Deployment) -> None:
    process = BackfillProcess(published, "replay", "--rate", "5")
    assert process.wait() == 2
    assert "Which rows? Give a filter" in process.output()
    assert replayed(published) == []


def test_a_replayed_message_is_the_one_before_but_for_its_header_and_a_position_before_all_others(
    published: Deployment,
) -> None:
    before = {event_id(message): message for message in published.delivered()}
    published.command("replay", "--all")
    again = replayed(published)
    for message in again:
        original = before[event_id(message)]
        assert (message.key, message.value, message.partition) == (original.key, original.value, original.partition)
        assert header(message, "type") == header(original, "type")
        assert [name for name, _ in message.headers] == [*(name for name, _ in original.headers), "replayed"]
    assert {header(message, "position") for message in again} == {"0/0:0", "0/0:1", "0/0:2", "0/0:3"}
    (joined,) = (message for message in again if message.value == b"4")
    assert datetime.fromtimestamp(joined.timestamp_ms / 1000, UTC).isoformat() == "2026-11-20T13:00:00+00:00"


def test_the_order_is_that_of_created_at_and_each_key_has_its_own(published: Deployment) -> None:
    published.command("replay", "--aggregate", "order:1")
    assert [message.value for message in replayed(published)] == [b"1", b"3"]


def test_everything_goes_to_another_topic_if_that_is_asked_for(published: Deployment) -> None:
    other = published.kafka.create_topic()
    before = len(published.delivered())
    published.command("replay", "--type", "Placed", "--topic", other)
    assert values(replayed(published, other)) == {b"1", b"2"}
    assert len(published.delivered()) == before
    published.kafka.delete_topics(other)


def test_a_dry_run_counts_what_would_be_published_and_changes_nothing(published: Deployment) -> None:
    before = len(published.delivered())
    told = published.command("replay", "--aggregate", "order", "--dry-run")
    counts = {kind: int(count) for kind, count in re.findall(rf"{published.topic}\s+(\w+)\s+(\d+)  2026", told)}
    assert counts == {"Paid": 1, "Placed": 2}
    assert "2026-11-20 10:00:00 to 2026-11-20 11:00:00" in told
    assert len(published.delivered()) == before
    assert published.database.execute("SELECT count(*) FROM walrelay.replays") == [(0,)]
    published.command("replay", "--aggregate", "order")
    assert Counter(header(message, "type") for message in replayed(published)) == counts


def test_the_rate_is_kept_evenly(published: Deployment, measured: Measured) -> None:
    """Kafka's own clock stamps the messages when they arrive."""
    stamped = published.kafka.create_topic(config={"message.timestamp.type": "LogAppendTime"})
    published.write_rows(96)
    published.catch_up()
    published.command("replay", "--all", "--rate", "50", "--topic", stamped)
    times = sorted(message.timestamp_ms for message in published.kafka.read_all(stamped))
    seconds = (times[-1] - times[0]) / 1000
    most = max(sum(start <= time < start + 200 for time in times) for start in times)
    measured("seconds for 100 events at 50 a second", seconds)
    assert 1.7 < seconds < 20
    assert most < 40, "a second's worth at once would be 50; 10 belong into 200 ms, and machines have their pauses"
    published.kafka.delete_topics(stamped)


def test_rows_that_the_relay_has_not_confirmed_are_left_out_and_counted(published: Deployment) -> None:
    published.relays[-1].stop()
    published.write("5", "6")
    told = published.command("replay", "--all", exit_code=None)  # 1 if none is known to be confirmed
    assert "no relay reads the slot" in told
    left_out = int(re.search(r"left out +(\d+) row", told)[1])  # type: ignore[index]
    assert left_out >= 2
    assert values(replayed(published)) <= {b"1", b"2", b"3", b"4"}
    assert len(replayed(published)) + left_out == 6


def test_rows_of_a_transaction_that_was_open_at_the_beginning_are_not_part_of_a_replay(published: Deployment) -> None:
    """Nor are those of later ones, as long as it lasts: they are counted, and nothing is guessed."""
    with published.database.connect(autocommit=False) as connection:
        connection.execute("SELECT walrelay.emit('thing', 'x', 'Open', '7')")
        published.write("8")
        published.catch_up()
        told = published.command("replay", "--all")
        connection.commit()
    assert "1 row that the relay may not have confirmed" in told
    assert values(replayed(published)) == {b"1", b"2", b"3", b"4"}


def test_dead_letters_are_left_to_their_own_replay(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic, refusals={"policy": "dead_letter"})
    deployment.start()
    deployment.write("1")
    deployment.write("2", topic="not/a/topic")
    deployment.catch_up()
    told = deployment.command("replay", "--all")
    assert "1 dead letter: " in told
    assert values(replayed(deployment)) == {b"1"}


def test_a_replay_runs_beside_a_relay_that_publishes_exactly_once(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    deployment = deploy(database, kafka, topic, delivery="exactly_once")
    deployment.write_rows(500)
    deployment.start()
    deployment.catch_up()
    process = BackfillProcess(deployment, "replay", "--all", "--rate", "250")
    wait_until(lambda: replays(deployment) > 0, 30, "the replay to begin")
    deployment.write_rows(500)
    deployment.catch_up()
    assert process.wait() == 0, process.output()
    messages = deployment.delivered()
    assert Counter(("replayed", b"true") in message.headers for message in messages) == {False: 1000, True: 500}


def test_the_order_is_that_of_the_commits_where_the_server_keeps_their_times(
    deploy: Deploy, private_postgres: PostgresMaker, kafka: Kafka, topic: str
) -> None:
    """The time of a row is its commit's, then, whatever created_at says."""
    deployment = deploy(private_postgres(track_commit_timestamp="on").create_database(), kafka, topic)
    for payload, created_at in (("1", "2026-01-02"), ("2", "2026-01-01"), ("3", "2026-01-03")):
        deployment.database.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, created_at)"
            " VALUES ('order', '1', 'Placed', %s::jsonb, %s)",
            [payload, created_at],
        )
    deployment.start()
    deployment.catch_up()
    deployment.command("replay", "--from", "1h")
    assert [message.value for message in replayed(deployment)] == [b"1", b"2", b"3"]
    originals = {message.value: message.timestamp_ms for message in deployment.delivered()[:3]}
    assert {message.value: message.timestamp_ms for message in replayed(deployment)} == originals
    process = BackfillProcess(deployment, "replay", "--all", "--rate", "1")
    wait_until(lambda: replays(deployment) >= 1, 30, "a row to be published")
    process.kill()
    deployment.command("replay", "--all")
    assert [message.value for message in replayed(deployment)][-2:] == [b"2", b"3"]
    assert "all is well" in deployment.command("audit")


def test_a_partitioned_outbox_is_replayed_and_audited_like_any_other(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str
) -> None:
    database.execute(
        "CREATE TABLE outbox (id uuid NOT NULL DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text,"
        " type text, payload jsonb, headers jsonb NOT NULL DEFAULT '{}', topic text, tenant_id text,"
        " created_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (id, created_at))"
        " PARTITION BY RANGE (created_at)"
    )
    database.execute("CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM (MINVALUE) TO ('2026-11-01')")
    database.execute("CREATE TABLE outbox_new PARTITION OF outbox FOR VALUES FROM ('2026-11-01') TO (MAXVALUE)")
    deployment = deploy(database, kafka, topic)
    deployment.start()
    database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, created_at) VALUES"
        " ('order', '1', 'Placed', '1', '2026-10-01'), ('order', '1', 'Placed', '2', now())"
    )
    deployment.catch_up()
    deployment.command("replay", "--all")
    assert [message.value for message in replayed(deployment)] == [b"1", b"2"]
    assert "all 2 rows are in the topics" in deployment.command("audit", "--from", "2026-01-01")


def test_a_replay_to_a_topic_that_would_delete_the_rows_is_refused_with_the_cure(published: Deployment) -> None:
    """Kafka deletes by a message's own time, which is that of the row's commit: a consumer would see nothing of it."""
    rebuild = published.kafka.create_topic(config={"retention.ms": "3600000"})
    dry = published.said("replay", "--all", "--topic", rebuild, "--dry-run", exit_code=1)
    for said in (dry, published.said("replay", "--all", "--topic", rebuild, exit_code=1)):
        assert f"{rebuild} deletes messages 60 minutes after their own time, and the oldest is of 2026-11-20" in said
        assert "--add-config message.timestamp.type=LogAppendTime" in said
    assert published.broker.read_all(rebuild) == []
    configure(published.kafka, rebuild, {"message.timestamp.type": "LogAppendTime"})
    assert "published 4 rows again" in published.command("replay", "--all", "--topic", rebuild)
    assert len(published.broker.read_all(rebuild)) == 4


def test_the_doctor_says_that_what_waits_is_too_old_for_its_topic(deployment: Deployment) -> None:
    configure(deployment.kafka, deployment.topic, {"retention.ms": "1"})
    deployment.write("1")
    told = deployment.command("doctor", exit_code=None)
    assert "deletes messages 0 s after their own time, and the oldest event that waits is" in told


@pytest.fixture
def fanned(deploy: Deploy, database: Database, kafka: Kafka, topic: str) -> Deployment:
    """Each row has a message for two topics; the second takes small ones only, and others become dead letters."""
    second = kafka.create_topic(config={"max.message.bytes": "2000"})
    routes = [{"name": "first", "continue": True, "topic": topic}, {"name": "second", "topic": second}]
    return deploy(database, kafka, topic, routes=routes, refusals={"policy": "dead_letter"})


def test_a_dead_letter_of_one_message_leaves_the_rows_others_to_the_replay_that_audit_advises(
    fanned: Deployment,
) -> None:
    fanned.start()
    fanned.write('"1"', f'"{"x" * 5000}"', '"3"')
    fanned.catch_up()
    fanned.command("dlq", "discard", "--error", "too_large", "--reason", "not needed there", "--yes")
    fanned.kafka.delete_topics(fanned.topic)
    wait_until(lambda: fanned.topic not in fanned.kafka.admin.list_topics(timeout=5).topics, 30, "the topic to be gone")
    fanned.kafka.create_topic(fanned.topic)
    missing = fanned.command("audit", exit_code=1)
    assert "missing       3 messages of 6" in missing
    (advice,) = re.findall(r"to publish them: walrelay (replay .*)", missing)
    told = fanned.command(*advice.split())
    assert "to publish  3 rows, 5 messages" in told
    assert "left out    1 dead letter" in told
    assert "published 3 rows again" in told
    assert len(fanned.delivered()) == 3
    assert "all is well" in fanned.command("audit")
    state = fanned.command("find", "--since", "1h", "--json")
    assert {each["state"] for each in json.loads(state)["rows"]} == {"published", "dead_letter"}


def test_a_replayed_dead_letter_whose_topic_was_lost_is_missing_and_replayed_again(deployment: Deployment) -> None:
    deployment.write_settings(refusals={"policy": "dead_letter"})
    configure(deployment.kafka, deployment.topic, {"max.message.bytes": "2000"})
    deployment.start()
    deployment.write("1", f'"{"x" * 5000}"')
    deployment.catch_up()
    configure(deployment.kafka, deployment.topic, {"max.message.bytes": "1000000"})
    assert "replayed" in deployment.command("dlq", "replay")
    assert "all is well" in deployment.command("audit")
    deployment.kafka.delete_topics(deployment.topic)
    there = deployment.kafka.admin.list_topics
    wait_until(lambda: deployment.topic not in there(timeout=5).topics, 30, "the topic to be gone")
    deployment.kafka.create_topic(deployment.topic)
    (advice,) = re.findall(r"to publish them: walrelay (replay .*)", deployment.command("audit", exit_code=1))
    assert "published 2 rows again" in deployment.command(*advice.split())
    assert "all is well" in deployment.command("audit")


def test_rows_are_counted_as_rows_and_messages_as_messages(fanned: Deployment) -> None:
    fanned.start()
    fanned.write('"1"', '"2"')
    fanned.catch_up()
    assert "clean-up" not in fanned.said("replay", "--all")
    told = fanned.command("replay", "--all", "--dry-run")
    assert "to publish  2 rows, 4 messages" in told
