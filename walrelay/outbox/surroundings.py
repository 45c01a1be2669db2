"""What the events of a request have in common: tenant, correlation, causation, trace. It is kept in
contextvars, through await and into tasks, so that no function has to pass it on.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, Token
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
    """Events inside get these: the ids as headers correlation-id and causation-id, the tenant in its column. A value
    that is not given stays as it was outside. RuntimeError where the block is left in another context than it was
    entered in: a sync dependency of FastAPI runs in a thread, and what is set there is not seen in the endpoint. Make
    it async.
    """
    with ExitStack() as stack:
        for variable, value in ((_correlation, correlation_id), (_causation, causation_id), (_tenant, tenant_id)):
            if value is not None:
                stack.callback(_reset, variable, variable.set(value))
        yield


def _reset(variable: ContextVar[str | None], token: Token[str | None]) -> None:
    try:
        variable.reset(token)
    except ValueError as error:
        raise RuntimeError(
            "walrelay.outbox.context was entered and left in different contexts, so the code in between did not have"
            " its values: a sync dependency of FastAPI runs in a thread with a copy of the context; make it `async def`"
        ) from error


@contextmanager
def consuming(message_id: str, headers: Headers | None, *, tenant_id: str | None = None) -> Iterator[None]:
    """Events inside have that message as their causation, and its correlation, or the message itself if it has none.
    `headers`: the message's, as its library returns them: a mapping or pairs, of text or bytes.
    """
    correlation = _text(dict(headers or ()).get(CORRELATION))
    causation = _text(message_id)
    with context(correlation_id=correlation or causation, causation_id=causation, tenant_id=tenant_id):
        yield


def _text(value: object) -> str | None:
    """The value in a form that jsonb accepts: a strange header of a message must not make each of its events fail."""
    if value is None:
        return None
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def tenant() -> str | None:
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
    """W3C's traceparent and tracestate of the current span, and the baggage. An application that traces has
    OpenTelemetry loaded.
    """
    carrier: dict[str, str | None] = {}
    if "opentelemetry.trace" in sys.modules:
        tracecontext = import_module("opentelemetry.trace.propagation.tracecontext")
        tracecontext.TraceContextTextMapPropagator().inject(carrier)
        import_module("opentelemetry.baggage.propagation").W3CBaggagePropagator().inject(carrier)
    return carrier
