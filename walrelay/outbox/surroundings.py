"""What the events of a request have in common: tenant, correlation, causation, trace. It goes with the context
(contextvars), through await and into tasks, so that no function has to pass it on.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib import import_module

Headers = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]

CORRELATION = "correlation-id"
CAUSATION = "causation-id"

_correlation: ContextVar[str | None] = ContextVar("correlation_id", default=None)
_causation: ContextVar[str | None] = ContextVar("causation_id", default=None)
_tenant: ContextVar[str | None] = ContextVar("tenant_id", default=None)


@contextmanager
def context(
    *, correlation_id: str | None = None, causation_id: str | None = None, tenant_id: str | None = None
) -> Iterator[None]:
    """Inside, events get these: the ids as headers correlation-id and causation-id, the tenant in its column. What is
    not given stays as it was outside.
    """
    with ExitStack() as stack:
        for variable, value in ((_correlation, correlation_id), (_causation, causation_id), (_tenant, tenant_id)):
            if value is not None:
                stack.callback(variable.reset, variable.set(value))
        yield


@contextmanager
def consuming(message_id: str, headers: Headers | None, *, tenant_id: str | None = None) -> Iterator[None]:
    """Inside, events are caused by that message, and correlated to what it was correlated to, or to itself. `headers`
    are those of the message, as its library has them: a mapping or pairs, of text or bytes.
    """
    correlation = dict(headers or ()).get(CORRELATION)
    if isinstance(correlation, bytes):
        correlation = correlation.decode(errors="replace")
    with context(correlation_id=correlation or message_id, causation_id=message_id, tenant_id=tenant_id):
        yield


def tenant() -> str | None:
    """The context's tenant."""
    return _tenant.get()


def captured() -> dict[str, str | None]:
    """The headers that the context gives."""
    headers: dict[str, str | None] = _trace()
    if (correlation := _correlation.get()) is not None:
        headers[CORRELATION] = correlation
    if (causation := _causation.get()) is not None:
        headers[CAUSATION] = causation
    return headers


def _trace() -> dict[str, str | None]:
    """W3C's traceparent and tracestate of the current span. An application that traces has OpenTelemetry loaded."""
    carrier: dict[str, str | None] = {}
    if "opentelemetry.trace" in sys.modules:
        tracecontext = import_module("opentelemetry.trace.propagation.tracecontext")
        tracecontext.TraceContextTextMapPropagator().inject(carrier)
    return carrier
