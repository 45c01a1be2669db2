"""`walrelay compare`: the relay's topic beside one that another publisher filled with the same events."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.acceptance.conftest import Deploy
from tests.acceptance.deployment import Deployment, event_id
from tests.acceptance.relay_process import WALRELAY
from tests.servers.database import Database
from tests.servers.topics import QUIET, Kafka, Received
from tests.servers.waiting import wait_until


@pytest.fixture
def old(deployment: Deployment) -> Iterator[str]:
    """The other publisher's topic."""
    name = deployment.kafka.create_topic(partitions=2)
    yield name
    deployment.kafka.delete_topics(name)


@pytest.fixture
def published(deployment: Deployment) -> Deployment:
    """Six events of two keys, published by a relay that runs on."""
    deployment.start()
    for number in range(6):
        deployment.write(json.dumps({"number": number}), key="ab"[number % 2])
    deployment.catch_up()
    return deployment


def events(deployment: Deployment) -> list[Received]:
    return sorted(deployment.delivered(), key=lambda message: json.loads(message.value or b"")["number"])


def copy(deployment: Deployment, topic: str, *messages: Received, delay_ms: int = 70) -> None:
    """Publishes them as another publisher would: later, in other partitions, without the header of a position."""
    producer = Producer({**QUIET, "bootstrap.servers": deployment.kafka.bootstrap_servers})
    for message in messages:
        headers: list[tuple[str, str | bytes | None]] = [each for each in message.headers if each[0] != "position"]
        producer.produce(topic, message.value, message.key, headers=headers, timestamp=message.timestamp_ms + delay_ms)
    assert producer.flush(10) == 0


def compared(deployment: Deployment, old: str, *options: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The deviations and the summary; the exit code is as the summary says."""
    words = ("compare", "--old", old, "--new", deployment.topic, "--wait", "0.5", "--json", *options)
    done = subprocess.run([WALRELAY, *words, "--config", deployment.config], capture_output=True, text=True, timeout=60)
    assert done.stdout, done.stderr
    *deviations, summary = map(json.loads, done.stdout.splitlines())
    assert done.returncode == (0 if summary["ok"] else 1)
    return deviations, summary


def differing(deviations: list[dict[str, Any]]) -> list[list[str]]:
    return [[difference["what"] for difference in each["differences"]] for each in deviations]


def test_the_same_events_from_another_publisher_do_not_differ(published: Deployment, old: str) -> None:
    copy(published, old, *events(published))
    report = published.command("compare", "--old", old, "--new", published.topic)
    assert "6, 6 of them identical" in report
    assert "OLD: half within 70 ms" in report
    assert report.endswith("nothing differs\n")
    assert "header position (6 pairs)" in report


def test_each_way_to_differ_is_told_of_its_message(published: Deployment, old: str) -> None:
    first, key, value, header, lost, last = events(published)
    headers = [(name, b"Other" if name == "type" else text) for name, text in header.headers]
    foreign = first._replace(headers=[("id", b"foreign")])
    changed = key._replace(key=b"c"), value._replace(value=b"{}"), header._replace(headers=headers)
    copy(published, old, first, *changed, foreign, last)
    deviations, summary = compared(published, old, "--from", "1h")
    assert sorted(each["verdict"] for each in deviations) == ["differs"] * 3 + ["only in NEW", "only in OLD"]
    assert {each["id"]: [it["what"] for it in each["differences"]] for each in deviations} == {
        event_id(key): ["key"],
        event_id(value): ["value"],
        event_id(header): ["header type"],
        event_id(lost): [],
        "foreign": [],
    }
    assert summary["faults"] == ["3 differ", "1 only in OLD", "1 only in NEW"]


def test_events_of_a_key_in_another_order_are_told(published: Deployment, old: str) -> None:
    a1, b1, a2, b2, a3, b3 = events(published)
    copy(published, old, a1, b1, a3, a2, b2, b3)
    deviations, _ = compared(published, old)
    assert differing(deviations) == [["order"]]
    assert deviations[0]["id"] in (event_id(a2), event_id(a3))


def test_a_publisher_without_headers_is_compared_by_an_id_in_the_payload_or_by_key_and_value(
    published: Deployment, old: str
) -> None:
    copy(published, old, *(each._replace(headers=[]) for each in events(published)))
    only_relay = ("--ignore-header", "id", "--ignore-header", "type")
    for options in (("--id", "payload.number"), ()):
        deviations, summary = compared(published, old, *only_relay, *options)
        assert deviations == []
        assert summary["identical"] == 6


def test_history_that_only_the_other_publisher_has_is_not_judged(published: Deployment, old: str) -> None:
    before = events(published)[0]._replace(headers=[("id", b"before")])
    copy(published, old, before._replace(timestamp_ms=before.timestamp_ms - 86_400_000), before, *events(published))
    deviations, summary = compared(published, old)
    assert deviations == []
    assert summary["beside"] == {"old": 1, "new": 0}, "the one of yesterday is not even read"


def test_a_topic_without_the_events_is_a_fault(published: Deployment, old: str) -> None:
    _, summary = compared(published, old)
    assert summary["faults"] == ["no message of OLD has a counterpart in NEW"]
    said = published.said("compare", "--old", "no-such-topic", "--new", published.topic, exit_code=1)
    assert "there is no topic 'no-such-topic'" in said


def test_an_event_that_rules_publish_to_two_topics_is_compared_in_both(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, old: str
) -> None:
    copies, old_copies = kafka.create_topic(), kafka.create_topic()
    routes = [{"name": "copy", "topic": copies, "continue": True}, {"name": "all", "topic": topic}]
    deployment = deploy(database, kafka, topic, routes=routes)
    deployment.start()
    deployment.write("1", "2", "3")
    deployment.catch_up()
    lost, *others = kafka.read_all(copies)
    copy(deployment, old, *deployment.delivered())
    copy(deployment, old_copies, *others)
    deviations, summary = compared(deployment, old, "--old", old_copies, "--new", copies, "--from", "1h")
    assert [(each["verdict"], each["new"]["topic"]) for each in deviations] == [("only in NEW", copies)]
    assert deviations[0]["id"] == event_id(lost)
    assert (summary["pairs"], summary["identical"], summary["repeated"]) == (5, 5, {"old": 0, "new": 0})
    copy(deployment, old_copies, lost)
    _, summary = compared(deployment, old, "--old", old_copies, "--new", copies, "--from", "1h")
    assert (summary["pairs"], [*summary["differing"]]) == (6, ["order"]), "it came after the others"
    marked = ("compare", "--marked", "true", "--wait", "0.1", "--json", "--from", "1h")
    summary = json.loads(deployment.command(*marked))
    assert (summary["identical"], summary["repeated"]) == (6, {"old": 0, "new": 0})
    kafka.delete_topics(copies, old_copies)


MARKED = ("--marked", "published_at IS NOT NULL", "--marked-at", "published_at")


def test_rows_that_the_old_worker_marked_are_compared_with_what_the_relay_published(published: Deployment) -> None:
    database = published.database
    database.execute("ALTER TABLE outbox ADD published_at timestamptz")
    first, *others, unmarked = map(event_id, events(published))
    mark = "UPDATE outbox SET published_at = created_at + interval '70 ms' WHERE id::text = ANY (%s)"
    database.execute(mark, [[first, *others]])
    published.relays[-1].stop()
    (lost,) = published.write("0")
    database.execute(mark, [[lost]])
    report = published.command("compare", *MARKED, "--wait", "0.1", exit_code=1)
    assert 'rows of "public"."outbox" where published_at IS NOT NULL' in report
    assert "6 messages of OLD, 6 of NEW" in report
    assert "5, 5 of them identical" in report
    assert "OLD: half within 70 ms" in report
    assert f'only in OLD   {lost}  row of "public"."outbox" (' in report
    assert f") for {published.topic}\n" in report
    assert f"only in NEW   {unmarked}  {published.topic} [" in report
    assert report.endswith("1 only in OLD, 1 only in NEW\n")


def test_marked_rows_are_what_today_s_rules_make_of_them(published: Deployment) -> None:
    published.database.execute("ALTER TABLE outbox ADD published_at timestamptz DEFAULT now()")
    zero, one, two, *rest = map(event_id, events(published))
    words = ("compare", *MARKED, "--from", "0001-01-02", "--wait", "0.1")
    assert published.command(*words).endswith("nothing differs\n")
    published.write_settings(
        routes=[
            {"name": "changed", "when": {"payload.number": 0}, "headers": {"set": {"by": "a rule"}}},
            {"name": "dropped", "when": {"payload.number": 1}, "drop": True},
            {"name": "others", "when": {"payload.number": [3, 4, 5]}},
        ]
    )
    lines = [json.loads(line) for line in published.command(*words, "--json", exit_code=1).splitlines()]
    assert {(each["verdict"], each["id"]): differing([each])[0] for each in lines[:-1]} == {
        ("differs", zero): ["header by"],
        ("only in NEW", one): [],
        ("differs", two): ["topic"],
    }
    (refused,) = [each["differences"][0]["old"] for each in lines if each.get("id") == two]
    assert refused.startswith("none: no rule matches")
    assert lines[-1]["identical"] == len(rest)


def test_marks_that_cannot_be_read_are_refused(deployment: Deployment) -> None:
    for *options, said in (
        ("--marked", "publishd", "--marked 'publishd' cannot be used"),
        ("--marked", "true", "--marked-at", "type", "--marked-at 'type' cannot be used"),
        ("--marked", "true", "--follow", "--follow has no effect with --marked"),
        ("--marked-at", "created_at", "--marked-at has no effect without --marked"),
        ("Name topics with --old and --new, or rows with --marked.",),
    ):
        assert said in deployment.said("compare", *options, exit_code=None)
    deployment.write_settings(outbox={"columns": {"created_at": None}})
    untimed = deployment.said("compare", "--marked", "true", exit_code=1)
    assert '--marked needs the time of each row, and "public"."outbox" has no column for it' in untimed


@contextmanager
def following(deployment: Deployment, old: str) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """A comparison that goes on, and the lines that it printed."""
    words = ("compare", "--old", old, "--new", deployment.topic, "--follow", "--wait", "1", "--json")
    child = subprocess.Popen(
        [WALRELAY, *words, "--config", deployment.config], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    lines: list[str] = []
    assert child.stdout is not None
    listener = Thread(target=lines.extend, args=(child.stdout,), daemon=True)
    listener.start()
    try:
        yield child, lines
    finally:
        child.kill()
        child.wait()
        listener.join()
        child.stdout.close()


def test_it_follows_until_the_operator_is_convinced(published: Deployment, old: str) -> None:
    copy(published, old, *events(published))
    with following(published, old) as (child, lines):
        for number in range(6, 8):
            published.write(json.dumps({"number": number}))
        published.catch_up()
        copy(published, old, events(published)[6])
        assert wait_until(lambda: lines, 30, "the event that the other publisher lost")
        assert (json.loads(lines[0])["verdict"], json.loads(lines[0])["id"]) == (
            "only in NEW",
            event_id(events(published)[7]),
        )
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 1
    assert wait_until(lambda: len(lines) == 2, 5, "the summary")
    summary = json.loads(lines[1])
    assert (summary["pairs"], summary["faults"]) == (7, ["1 only in NEW"])
