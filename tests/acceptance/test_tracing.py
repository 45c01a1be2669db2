"""Writer, relay and consumer in one trace; metrics, traces and logs of a real relay at a collector."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from opentelemetry import baggage, context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.acceptance.conftest import Deploy
from tests.acceptance.trace_picture import draw
from tests.servers.collector import Collector, attributes, collecting, value
from tests.servers.database import Database
from tests.servers.topics import QUIET, Kafka
from tests.servers.waiting import wait_until
from walrelay.inbox import Inbox, identify
from walrelay.outbox import Event, Outbox


class _Consumer:
    """Reads the topic as it comes."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        settings = {**QUIET, "bootstrap.servers": kafka.bootstrap_servers, "group.id": f"test-{topic}"}
        self._consumer = Consumer({**settings, "fetch.wait.max.ms": 50})
        partitions = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])

    def next(self) -> Message:
        found = wait_until(lambda: self._consumer.poll(0.1), 60, "a message", interval=0)
        assert found is not None
        return found

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture
def application(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tracer of an application that exports to the same collector."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{collector.endpoint}/v1/traces")))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    yield trace.get_tracer("shop")
    provider.shutdown()


def test_writer_relay_and_consumer_are_in_one_trace(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, collector: Collector, application: Any
) -> None:
    deployment = deploy(database, kafka, topic, otlp={"endpoint": collector.endpoint, "sample": 0, "interval": 0.5})
    relay = deployment.start()
    inbox, outbox = Inbox(), Outbox()
    with database.connect() as connection, closing(_Consumer(kafka, topic)) as consumer:
        connection.execute(inbox.sql().encode())
        deployment.write("1")
        assert identify(consumer.next()).trace is None, "a row without a trace"
        with application.start_as_current_span("POST /orders", kind=trace.SpanKind.SERVER):
            token = context.attach(baggage.set_baggage("tenant", "acme"))
            with connection.transaction():
                outbox.emit(
                    connection,
                    Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"total": 5}),
                )
            context.detach(token)
        message = identify(consumer.next())
        with connection.transaction(), inbox.receive(connection, consumer="billing", message_id=message):
            assert baggage.get_baggage("tenant") == "acme"
    wait_until(lambda: len(collector.spans) >= 3, 60, "three spans")
    wait_until(lambda: relayed(collector) == 2, 60, "the metrics of two records")
    wait_until(lambda: "streaming" in [value(record.body) for record in collector.logs], 60, "the log")
    relay.stop()
    spans = {span.name: span for span in collector.spans}
    writer, published, processed = (spans[name] for name in ("POST /orders", f"publish {topic}", f"process {topic}"))
    assert len(collector.spans) == 3, "a row without a trace has no span here"
    assert {span.trace_id for span in collector.spans} == {writer.trace_id}
    assert published.parent_span_id == processed.parent_span_id == writer.span_id
    assert [link.span_id for link in published.links] == [writer.span_id]
    assert [event.name for event in published.events] == ["commit", "decode", "publish", "receipt"]
    assert published.kind == Span.SpanKind.SPAN_KIND_PRODUCER
    said = attributes(published.attributes)
    assert (said["messaging.system"], said["messaging.destination.name"], said["slot"]) == (
        "kafka",
        topic,
        deployment.slot_name,
    )
    if path := os.environ.get("WALRELAY_TRACE_PICTURE"):
        Path(path).write_text(draw([writer, published, processed]))


def relayed(collector: Collector) -> int:
    records = collector.numbers.get("walrelay_records")
    return records.sum.data_points[0].as_int if records else 0


def test_a_collector_that_is_away_holds_nothing_up(
    deploy: Deploy, database: Database, kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    deployment = deploy(database, kafka, topic, otlp={"endpoint": "http://127.0.0.1:9", "sample": 1, "interval": 0.1})
    relay = deployment.start()
    deployment.write("1", "2")
    deployment.catch_up()
    relay.wait_for("noticed", containing="does not take metrics")
    relay.stop()
    assert len(deployment.delivered()) == 2
