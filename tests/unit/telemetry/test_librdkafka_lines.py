"""What librdkafka says goes through Python's logging and comes out as events, so that stderr is JSON lines only."""

import io
import json
import logging

import pytest
from confluent_kafka import KafkaError

from walrelay.sinks.kafka import errors
from walrelay.telemetry import logs

KAFKA = logging.getLogger("walrelay.kafka")


def test_a_line_of_librdkafka_is_an_event_of_its_level(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    KAFKA.error("CONFWARN [%s]: something is deprecated", "walrelay#producer-1")
    out, err = capsys.readouterr()
    event = json.loads(err)
    assert out == ""
    assert (event["event"], event["level"]) == ("librdkafka", "error")
    assert event["text"] == "CONFWARN [walrelay#producer-1]: something is deprecated"


def test_a_log_that_is_gone_fails_no_call_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = io.StringIO()
    monkeypatch.setattr("sys.stderr", gone)
    logs.configure("json", "info")
    gone.close()
    KAFKA.error("CONFWARN [walrelay#producer-1]: something is deprecated")


def test_what_differs_only_in_numbers_is_said_once_a_minute_with_a_count(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(logs, "monotonic", lambda: now)
    logs.configure("json", "info")
    for producer in range(1, 5):
        KAFKA.warning("REQTMOUT [walrelay#producer-%d]: timed out %d requests (after 30 s)", producer, producer)
    now += 61
    KAFKA.warning("REQTMOUT [walrelay#producer-9]: timed out 1 requests (after 31 s)")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert "repeated" not in first
    assert second["repeated"] == 3


def test_an_attempt_to_connect_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    KAFKA.error("FAIL [walrelay#producer-1]: b:9/1: Connect to ipv4#127.0.0.1:9 failed: Connection refused (after 0ms)")
    assert capsys.readouterr().err == ""


def test_an_outage_is_said_when_it_begins_once_a_minute_and_when_it_is_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(errors, "monotonic", lambda: now)
    logs.configure("json", "info")
    outage = errors.Outage()
    for _ in range(3):  # each run has a producer of its own
        of_a_producer = errors.Complaints(outage)
        of_a_producer(KafkaError(KafkaError._TRANSPORT, "b:9: Connection refused"))
        of_a_producer(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        now += 25
    of_a_producer(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    now += 1
    of_a_producer.answered()
    of_a_producer.answered()
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(entry["event"], entry.get("seconds"), entry.get("after_seconds")) for entry in said] == [
        ("broker away", 0, None),
        ("broker away", 75, None),
        ("broker back", None, 76.0),
    ]
    assert said[0]["why"] == "b:9: Connection refused"


def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "error")
    KAFKA.warning("CONFWARN")
    assert capsys.readouterr().err == ""
