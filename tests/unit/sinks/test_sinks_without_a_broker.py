"""The sinks log, statistics and null: what they say, and that everything counts as published at once."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from walrelay.errors import Fatal
from walrelay.model import Message, Receipt
from walrelay.publish import Sink, SinkHandle, load
from walrelay.sinks import statistics
from walrelay.sinks.statistics import StatisticsSink, TopicCounts
from walrelay.telemetry import logs

LOG = logging.getLogger("walrelay.sinks")
MESSAGE = Message("orders", b"42", b'{"a": 1}', [("id", b"e-1"), ("position", b"0/1:0")], 0)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    handlers, propagate, level = LOG.handlers, LOG.propagate, LOG.level
    yield
    LOG.handlers, LOG.propagate = handlers, propagate
    LOG.setLevel(level)
    structlog.reset_defaults()


def opened(kind: str, **settings: Any) -> Sink:
    plugin = load(kind)
    return SinkHandle(kind, plugin.settings.model_validate(settings), plugin).open()


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of the log, without their time."""
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [{name: value for name, value in line.items() if name != "timestamp"} for line in lines]


@pytest.mark.parametrize("kind", ["log", "statistics", "null"])
def test_every_message_has_its_receipt_at_once(kind: str) -> None:
    logs.configure("json", "info")
    sink = opened(kind)
    for ticket in (1, 1, 2):
        assert sink.publish(MESSAGE, ticket)
    assert [*sink.receipts(0)] == [Receipt(1, 2), Receipt(2, 1)]
    assert [*sink.receipts(0)] == []
    sink.close()


def test_the_log_has_topic_key_id_and_size_and_no_payload(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    opened("log").publish(MESSAGE, 1)
    assert said(capsys) == [
        {"event": "message", "level": "info", "topic": "orders", "key": "42", "id": "e-1", "bytes": 8}
    ]


def test_the_payload_is_logged_if_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    sink = opened("log", payload=True)
    for each in (MESSAGE, MESSAGE._replace(value=b"\xff", key=b"\xfe"), MESSAGE._replace(value=None, headers=[])):
        sink.publish(each, 1)
    text, binary, nothing = said(capsys)
    assert text["payload"] == '{"a": 1}'
    assert (binary["payload"], binary["key"]) == ({"base64": "/w=="}, {"base64": "/g=="})
    assert (nothing["payload"], nothing["id"], nothing["bytes"]) == (None, None, 0)


def test_the_id_may_have_the_name_that_an_envelope_gives_it(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    opened("log").publish(MESSAGE._replace(headers=[("event_id", b"e-2")]), 1)
    assert said(capsys)[0]["id"] == "e-2"


def test_what_a_message_holds_moves_no_cursor_and_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("console", "info")
    opened("log").publish(MESSAGE._replace(key=b"a\n09:00 [error] forged \x1b[2J", topic="t\x9b"), 1)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "[error] forged" in err
    assert "\x1b[2J" not in err
    assert "\x9b" not in err


@pytest.mark.parametrize("kind", ["log", "statistics"])
def test_a_level_of_the_log_that_hides_what_the_sink_says_is_fatal(kind: str) -> None:
    logs.configure("json", "warning")
    with pytest.raises(Fatal, match=f"the sink {kind} writes to the log with the level info, which log.level leaves"):
        opened(kind)


@pytest.mark.parametrize("kind", ["log", "statistics"])
def test_a_log_that_cannot_be_written_is_fatal_and_close_still_closes(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure("json", "info")
    sink = opened(kind, **({"interval": 1e-9} if kind == "statistics" else {}))
    sink.publish(MESSAGE, 1)
    (handler,) = LOG.handlers

    def broken(record: logging.LogRecord) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(handler, "emit", broken)
    with pytest.raises(Fatal, match="the log cannot be written: Broken pipe"):
        sink.publish(MESSAGE, 1)
    sink.close()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_counts_and_rates_are_told_for_each_topic_at_the_interval_and_at_close(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("json", "info")
    clock, topics = Clock(), dict[str, TopicCounts]()
    sink = StatisticsSink(topics, 10, clock)
    for topic in ("orders", "orders", "bills"):
        sink.publish(MESSAGE._replace(topic=topic), 1)
    assert [*sink.receipts(0)]
    assert said(capsys) == []
    clock.now += 10
    sink.receipts(0)
    common = {"event": "statistics", "level": "info", "seconds": 10.0}
    assert said(capsys) == [
        {**common, "topic": "orders", "messages": 2, "bytes": 16, "per_second": 0.2, "total": 2},
        {**common, "topic": "bills", "messages": 1, "bytes": 8, "per_second": 0.1, "total": 1},
    ]
    clock.now += 10
    sink.receipts(0)
    assert said(capsys) == [], "nothing came"
    sink.publish(MESSAGE, 1)
    clock.now += 2
    sink.close()
    sink.close()
    assert [(each["messages"], each["total"], each["seconds"]) for each in said(capsys)] == [(1, 3, 2.0)]
    successor = StatisticsSink(topics, 10, clock)
    successor.publish(MESSAGE, 1)
    successor.close()
    assert [(each["messages"], each["total"]) for each in said(capsys)] == [(1, 4)]


def test_topics_without_number_are_counted_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_TOPICS", 2)
    logs.configure("json", "info")
    sink = opened("statistics")
    for topic in ("a", "b", "c", "d", "a"):
        sink.publish(MESSAGE._replace(topic=topic), 1)
    sink.close()
    assert [(each["topic"], each["messages"]) for each in said(capsys)] == [("a", 2), ("b", 1), ("(others)", 2)]


def test_the_null_sink_says_when_it_opens_and_in_doctor_that_nothing_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("json", "warning")
    opened("null")
    (told,) = said(capsys)
    assert (told["event"], told["level"], told["consequence"]) == (
        "nothing is kept",
        "warning",
        "every event is thrown away",
    )
    plugin = load("null")
    (finding,) = plugin.examine(plugin.settings(), ["orders"])
    assert finding.verdict == "warning"
    assert "keeps NOTHING" in finding.detail
    assert finding.fix


def test_what_another_package_logs_for_its_sink_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    log = logging.getLogger("walrelay.sinks.pigeon")
    log.info("pigeon %s", "left", extra={"fields": {"event": "its own", "pigeons": 3}})
    log.debug("not at this level")
    assert said(capsys) == [{"event": "pigeon left", "level": "info", "pigeons": 3}]
