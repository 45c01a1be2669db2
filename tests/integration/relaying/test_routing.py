"""Routing rules over real rows: columns without a role, paths into JSON, tags; what is dropped, and what is refused."""

from typing import Any

import pytest

from tests.integration.relaying.conftest import OutboxMaker
from tests.integration.relaying.harness import Outbox, header
from walrelay.observe import Dropped

ROUTES: list[dict[str, Any]] = [
    {
        "name": "wallet",
        "when": {"column.tags": {"tags": {"required": ["wallet_id"]}}, "payload.amount": {"exists": True}},
        "topic": "wallet.{column.region|lower}",
        "key": "{payload.wallet.id}",
        "payload": {"redact": ["customer.email"]},
        "headers": {"set": {"user": "{column.metadata.user.id}"}},
    },
    {"name": "copy", "when": {"column.urgent": True}, "topic": "urgent", "continue": True},
    {"name": "noise", "when": {"type": {"prefix": "debug."}}, "drop": True},
    {"name": "others", "when": {"type": "placed"}},
    {"name": "sentinels", "when": {"topic": {"exists": True}}},
]


@pytest.fixture
def routed(make_outbox: OutboxMaker) -> Outbox:
    make_outbox().database.execute(
        "ALTER TABLE outbox ADD tags text[], ADD metadata jsonb, ADD region text, ADD urgent boolean"
    )
    return make_outbox(routes=ROUTES)


def write(outbox: Outbox, **columns: object) -> None:
    row = {"aggregate_type": "order", "aggregate_id": "o", "type": "placed", "payload": "{}"} | columns
    outbox.database.execute(
        f"INSERT INTO outbox ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})", [*row.values()]
    )


def test_rules_see_any_column_and_into_json(routed: Outbox) -> None:
    payload = '{"wallet": {"id": 7}, "amount": 1.50, "customer": {"email": "a@b", "name": "c"}}'
    wallet = {"tags": ["wallet_id=7", "x"], "region": "EU", "metadata": '{"user": {"id": 9}}', "payload": payload}
    with routed.relay() as relay:
        write(routed, **wallet)
        write(routed, urgent=True, payload='{"n": 1}')
        write(routed, type="debug.trace")
        write(routed, payload='{"n": 2}')
        first, second, third, fourth = routed.messages(relay)
        assert [each for each in routed.watcher.happenings if isinstance(each, Dropped)] == [
            Dropped(
                "noise", str(next(each.position for each in routed.watcher.happenings if isinstance(each, Dropped)))
            )
        ]
    assert (first.topic, first.key, header(first, "user")) == ("wallet.eu", b"7", b"9")
    assert b'"amount": 1.50' in (first.value or b"")
    assert b'"email": null' in (first.value or b"")
    assert [second.topic, third.topic, fourth.topic] == ["urgent", "outbox.event.order", "outbox.event.order"]
    assert second.value == third.value == b'{"n": 1}'
    assert header(second, "position") == header(third, "position")


def test_a_record_that_no_rule_matches_stops_the_relay_and_the_error_says_why(routed: Outbox) -> None:
    write(routed, type="strange")
    error = routed.failure()
    assert "no rule matches record" in str(error)
    assert "others: type is 'strange', not 'placed'" in str(error)
    assert "walrelay route test" in error.hint


def test_the_doctor_says_that_a_rule_names_a_column_that_is_not_there(routed: Outbox) -> None:
    routed.database.execute("ALTER TABLE outbox RENAME region TO regions")
    write(routed)
    found = routed.failure()
    assert "'region'" in str(found)
    assert "routes" in str(found) + found.hint
