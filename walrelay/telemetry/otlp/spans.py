"""Spans as OpenTelemetry has them, made of what an observer noted.

The header traceparent of a message is the writer's and stays it. So the writer's span is the parent of the relay's, as
it is of the consumer's, and linked to it, as the conventions for messaging want.
"""

from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from walrelay import __version__
from walrelay.model import sink_and_topic
from walrelay.telemetry.instruments.reading import messaging_system
from walrelay.telemetry.otlp.traces import TRACEPARENT, TRACESTATE, TracedOutcome, texts

_FORMAT = TraceContextTextMapPropagator()


class _Collected(SpanProcessor):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class SpanMaker:
    """Makes spans; for one thread."""

    def __init__(self, resource: Resource) -> None:
        provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        self._collected = _Collected()
        provider.add_span_processor(self._collected)
        self._tracer = provider.get_tracer("walrelay", __version__)

    def make(self, outcomes: Sequence[TracedOutcome]) -> list[ReadableSpan]:
        self._collected.spans = []
        for outcome in outcomes:
            self._make(outcome)
        return self._collected.spans

    def _make(self, outcome: TracedOutcome) -> None:
        message, headers = outcome.message, texts(outcome.message.headers)
        parent, links = _writer(headers) if message.parent else (Context(), [])
        sink, topic = sink_and_topic(message.address) if "" not in outcome.relay.kinds else ("", message.address)
        begin = min(message.committed_at, message.read_at)  # the server's clock may be ahead
        span = self._tracer.start_span(
            f"publish {topic}",
            parent,
            SpanKind.PRODUCER,
            _attributes(outcome, sink, topic, headers),
            links,
            _nanoseconds(begin),
        )
        for event, at in ("commit", begin), ("decode", message.read_at), ("publish", message.sent_at):
            span.add_event(event, timestamp=_nanoseconds(at))
        if outcome.error:
            span.set_status(Status(StatusCode.ERROR, outcome.error))
        else:
            span.add_event("receipt", timestamp=_nanoseconds(outcome.at))
        span.end(_nanoseconds(outcome.at))


def _writer(headers: Mapping[str, str]) -> tuple[Context, list[Link]]:
    carrier = {name: headers[name] for name in (TRACEPARENT, TRACESTATE) if name in headers}
    context = _FORMAT.extract(carrier, Context())
    writer = get_current_span(context).get_span_context()
    return context, [Link(writer)] if writer.is_valid else []


def _attributes(outcome: TracedOutcome, sink: str, topic: str, headers: Mapping[str, str]) -> dict[str, str | int]:
    relay, size = outcome.relay, outcome.message.size
    said: dict[str, str | int | None] = {
        "messaging.system": messaging_system(relay.kinds.get(sink, "")),
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.message.id": headers.get("id"),
        "messaging.message.body.size": size,
        "error.type": "_OTHER" if outcome.error else None,
        "relay": relay.name,
        "slot": relay.slot,
        "sink": sink or None,
        "position": headers.get("position"),
    }
    return {name: value for name, value in said.items() if value is not None}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
