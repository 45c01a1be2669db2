"""Topics read again from a time on: what a consumer sees, up to where they ended, and how far that was."""

import pytest

from tests.integration.sinks.kafka.test_recall import produce, settings
from tests.servers.topics import Kafka
from walrelay.publish import Found, SinkHandle, Span
from walrelay.sinks.kafka import plugin

T0 = 1_700_000_000_000  # what `produce` counts from


def read(kafka: Kafka, topic: str, since: int = 0) -> tuple[list[str], dict[int, Span]]:
    """Ids in the order that they came, and the span of each partition."""
    each = list(SinkHandle("kafka", settings(kafka), plugin).reader("a test")([topic, "no-such-topic"], T0 + since))
    spans = {span.partition: span for span in each if isinstance(span, Span)}
    return [found.id for found in each if isinstance(found, Found)], spans


def test_messages_from_a_time_on_are_read_in_the_order_of_their_partition(kafka: Kafka, topic: str) -> None:
    produce(kafka, topic, *range(100, 110), partition=0)
    produce(kafka, topic, 101, partition=1)
    ids, spans = read(kafka, topic, since=105)
    assert ids == ["105", "106", "107", "108", "109"]
    assert {partition: (span.began, span.ended, span.high) for partition, span in spans.items()} == {
        0: (5, 10, 10),
        1: (1, 1, 1),
        2: (0, 0, 0),
    }
    assert spans[0].oldest_ms == T0 + 105


def test_an_older_message_behind_a_newer_one_is_read_as_well(kafka: Kafka, topic: str) -> None:
    produce(kafka, topic, 200, 5, 201)
    assert read(kafka, topic, since=100)[0] == ["200", "5", "201"]


def test_a_committed_transaction_is_seen_to_its_end_and_an_aborted_one_is_not(kafka: Kafka, topic: str) -> None:
    produce(kafka, topic, 1, transactional=True).commit_transaction(10)
    produce(kafka, topic, 2, transactional=True).abort_transaction(10)
    ids, spans = read(kafka, topic)
    assert ids == ["1"]
    assert spans[0].ended == spans[0].high == 4, "each transaction ends in a marker"


def test_what_an_open_transaction_hides_is_told_and_not_waited_for_for_ever(
    kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrelay.sinks.kafka.read_back._PATIENCE", 3.0)
    produce(kafka, topic, 1)
    open_one = produce(kafka, topic, 2, transactional=True)
    produce(kafka, topic, 3)
    ids, spans = read(kafka, topic)
    assert ids == ["1"]
    assert (spans[0].ended, spans[0].high) == (1, 3)
    open_one.commit_transaction(10)
    assert read(kafka, topic)[0] == ["1", "2", "3"]
