"""What events have in common with their request: tenant, correlation, causation, trace."""

import asyncio
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from walrelay.connections import Row, Statement
from walrelay.outbox import Event, Outbox, consuming, context
from walrelay.outbox.surroundings import captured, tenant


def test_the_context_gives_headers_and_goes_with_its_block() -> None:
    assert (captured(), tenant()) == ({}, None)
    with context(correlation_id="c", tenant_id="acme"):
        with context(causation_id="m"):
            assert captured() == {"correlation-id": "c", "causation-id": "m"}
            assert tenant() == "acme"
        assert captured() == {"correlation-id": "c"}
    assert (captured(), tenant()) == ({}, None)


def test_what_a_message_causes_is_correlated_to_what_caused_the_message() -> None:
    with consuming("m-1", {}):
        assert captured() == {"correlation-id": "m-1", "causation-id": "m-1"}
        first = captured()
    of_kafka = [("type", b"Placed"), ("correlation-id", b"m-1"), ("none", None)]
    for headers in (first, of_kafka):
        with consuming("m-2", headers):
            assert captured() == {"correlation-id": "m-1", "causation-id": "m-2"}
    with consuming("m-3", None):
        assert captured() == {"correlation-id": "m-3", "causation-id": "m-3"}


def test_the_context_goes_with_a_task_and_does_not_leave_it() -> None:
    async def handle(tenant_id: str) -> str | None:
        with context(tenant_id=tenant_id):
            await asyncio.sleep(0)
            return tenant()

    async def all_at_once() -> list[str | None]:
        return list(await asyncio.gather(*(handle(str(number)) for number in range(10))))

    assert asyncio.run(all_at_once()) == [str(number) for number in range(10)]
    assert tenant() is None


def test_the_current_span_is_in_traceparent() -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("request") as span:
        trace = span.get_span_context()
        assert captured() == {"traceparent": f"00-{trace.trace_id:032x}-{trace.span_id:016x}-{trace.trace_flags:02x}"}
    assert captured() == {}


def test_an_events_own_headers_and_tenant_count_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Statement] = []

    class Connection:
        def require_transaction(self, what: str) -> None:
            pass

        def execute(self, statement: Statement) -> list[Row]:
            sent.append(statement)
            return []

    monkeypatch.setattr("walrelay.outbox.emitting.joined", lambda connection: connection)
    fields: dict[str, Any] = {"aggregate_type": "a", "aggregate_id": "1", "type": "t"}
    with context(correlation_id="c", causation_id="m", tenant_id="acme"):
        Outbox().emit(Connection(), Event(**fields, headers={"correlation-id": "own"}, tenant_id="other"))
        Outbox().emit(Connection(), Event(**fields))
    assert [(each.parameters["headers"], each.parameters["tenant_id"]) for each in sent] == [
        ('{"correlation-id": "own", "causation-id": "m"}', "other"),
        ('{"correlation-id": "c", "causation-id": "m"}', "acme"),
    ]


def test_what_somebody_wrote_into_a_header_makes_no_event_fail() -> None:
    headers: Any
    for given, kept in ((b"a\0b", "a\ufffdb"), ("\udcff", "?"), (7, "7"), (b"\xff", "\ufffd"), (b"", "m")):
        headers = {"correlation-id": given}
        with consuming("m", headers):
            assert captured()["correlation-id"] == kept
    with consuming("m\0", {}):
        assert captured() == {"correlation-id": "m\ufffd", "causation-id": "m\ufffd"}


def test_a_context_that_is_left_elsewhere_than_entered_says_so() -> None:
    """As a sync dependency of FastAPI, whose two halves run in threads with copies of the context."""
    entered = context(tenant_id="acme")
    copy_context().run(entered.__enter__)
    assert tenant() is None
    with pytest.raises(RuntimeError, match="a sync dependency of FastAPI runs in a thread"):
        copy_context().run(entered.__exit__, None, None, None)
