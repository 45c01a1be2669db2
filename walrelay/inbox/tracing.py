"""The consumer's span, in the trace of the message's writer. Only where the application has OpenTelemetry loaded."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from walrelay.inbox.identity import Identity


@contextmanager
def consuming_span(consumer: str, identity: Identity) -> Iterator[None]:
    """Inside, the current span is one of the message's handling, and its baggage is attached. The writer's span is the
    parent, unless the application has a span already, for instance of an instrumentation of the broker's client; it is
    linked in both cases.
    """
    found = identity.trace
    if found is None or "opentelemetry.trace" not in sys.modules:
        yield
        return
    api: Any = import_module("opentelemetry.trace")
    contexts: Any = import_module("opentelemetry.context")
    context, links = _joined(api, contexts, found.traceparent, found.tracestate, found.baggage)
    attributes = {
        "messaging.system": found.system,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": found.destination,
        "messaging.consumer.group.name": consumer,
        "messaging.message.id": identity.id,
    }
    token = contexts.attach(context)
    try:
        with api.get_tracer("walrelay.inbox").start_as_current_span(
            f"process {found.destination or consumer}",
            kind=api.SpanKind.CONSUMER,
            links=links,
            attributes={name: value for name, value in attributes.items() if value},
        ):
            yield
    finally:
        contexts.detach(token)


def _joined(api: Any, contexts: Any, parent: str | None, state: str | None, baggage: str | None) -> tuple[Any, Any]:
    tracing = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
    carrying = import_module("opentelemetry.baggage.propagation").W3CBaggagePropagator()
    headers = {"traceparent": parent, "tracestate": state, "baggage": baggage}
    carrier = {name: value for name, value in headers.items() if value}
    writer = api.get_current_span(tracing.extract(carrier, contexts.Context())).get_span_context()
    context = carrying.extract(carrier, contexts.get_current())
    if not writer.is_valid:
        return context, []
    if not api.get_current_span().get_span_context().is_valid:
        context = api.set_span_in_context(api.NonRecordingSpan(writer), context)
    return context, [api.Link(writer)]
