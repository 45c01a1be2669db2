"""The consumer's span, and the baggage of the message's writer while it is handled."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from walrelay.inbox import Identity, MessageTrace
from walrelay.inbox.identity import _found
from walrelay.inbox.tracing import consuming_span
from walrelay.outbox.surroundings import captured

TRACE, WRITER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{WRITER}-01"
MESSAGE = Identity("1", trace=MessageTrace(PARENT, "a=b", "tenant=acme", "kafka", "orders"))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (span,) = spans.get_finished_spans()
    return span


def test_the_span_is_the_writers_child_and_what_the_handler_writes_is_in_it(spans: InMemorySpanExporter) -> None:
    with consuming_span("billing", MESSAGE):
        written = captured()
        assert baggage.get_all() == {"tenant": "acme"}
    span = only(spans)
    assert (span.name, span.kind) == ("process orders", trace.SpanKind.CONSUMER)
    assert span.context is not None
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, WRITER)
    assert [f"{link.context.span_id:016x}" for link in span.links] == [WRITER]
    assert written == {
        "traceparent": f"00-{TRACE}-{span.context.span_id:016x}-01",
        "tracestate": "a=b",
        "baggage": "tenant=acme",
    }
    assert dict(span.attributes or {})["messaging.consumer.group.name"] == "billing"
    assert (captured(), baggage.get_all()) == ({}, {}), "it ends with the block"


def test_a_span_that_is_there_stays_the_parent_and_the_writer_is_linked(spans: InMemorySpanExporter) -> None:
    with trace.get_tracer("test").start_as_current_span("poll") as poll, consuming_span("billing", MESSAGE):
        pass
    span = spans.get_finished_spans()[0]
    assert span.parent is not None
    assert span.parent.span_id == poll.get_span_context().span_id
    assert [f"{link.context.span_id:016x}" for link in span.links] == [WRITER]


@pytest.mark.parametrize("headers", [MessageTrace("nonsense", baggage="tenant=acme"), MessageTrace(None, "x", ";;=")])
def test_headers_that_are_nonsense_are_left_out(headers: MessageTrace, spans: InMemorySpanExporter) -> None:
    with consuming_span("billing", Identity("1", trace=headers)):
        pass
    assert (only(spans).parent, len(only(spans).links), only(spans).name) == (None, 0, "process billing")


def test_an_error_of_the_handler_is_the_spans(spans: InMemorySpanExporter) -> None:
    with pytest.raises(KeyError), consuming_span("billing", MESSAGE):
        raise KeyError("x")
    assert not only(spans).status.is_ok


def test_without_headers_there_is_no_span(spans: InMemorySpanExporter) -> None:
    with consuming_span("billing", Identity("1")):
        assert captured() == {}
    assert spans.get_finished_spans() == ()


def test_tasks_do_not_share_it(spans: InMemorySpanExporter) -> None:
    @contextmanager
    def handled(tenant: str) -> Iterator[None]:
        found = MessageTrace(PARENT, baggage=f"tenant={tenant}")
        with consuming_span("billing", Identity("1", trace=found)):
            yield

    async def handle(tenant: str) -> Any:
        with handled(tenant):
            await asyncio.sleep(0)
            return baggage.get_baggage("tenant")

    async def all_at_once() -> list[Any]:
        return list(await asyncio.gather(*(handle(str(number)) for number in range(10))))

    assert asyncio.run(all_at_once()) == [str(number) for number in range(10)]


def test_headers_of_any_form_are_found() -> None:
    of_kafka = [("id", b"1"), ("traceparent", PARENT.encode()), ("baggage", b"a=\xff"), ("tracestate", None)]
    assert _found("", of_kafka, "kafka", "orders").trace == MessageTrace(PARENT, None, "a=\ufffd", "kafka", "orders")
    assert _found("", [("id", "1"), ("baggage", "a=b")], "nats", "s").trace == MessageTrace(
        None, None, "a=b", "nats", "s"
    )
    assert _found("", [("id", "1"), ("tracestate", "a=b")], "nats", "s").trace is None
