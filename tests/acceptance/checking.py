"""What must hold of the messages in a topic, given the outbox table: the truth about what was committed."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from tests.acceptance.deployment import Deployment, event_id, header
from tests.acceptance.writing import Writers
from tests.servers.topics import Kafka, Received
from walrelay.lsn import LSN


class Delivery(NamedTuple):
    """How many events were delivered, and how many messages repeated one that was delivered before."""

    events: int
    duplicates: int


def assert_delivered(
    deployment: Deployment, writers: Writers | None = None, topics: Sequence[str] = (), at: Kafka | None = None
) -> Delivery:
    """Every committed event arrived, nothing else did, and first deliveries are in commit order.

    `topics`: where events are beside the deployment's own topic; `at`: of another broker than the deployment's.
    """
    committed = _committed(deployment)
    if writers is not None:
        assert writers.acknowledged <= committed.keys(), "PostgreSQL lost commits; nothing can be said of the relay"
        assert not writers.undone & committed.keys()
    messages = (at or deployment.broker).read_all(deployment.topic, *topics)
    first = _first_deliveries(messages)
    missing, strange = committed.keys() - first.keys(), first.keys() - committed.keys()
    assert not missing, f"{len(missing)} of {len(committed)} committed events never arrived, such as {min(missing)}"
    assert not strange, f"{len(strange)} events arrived that were not committed, such as {min(strange)}"
    for event, message in first.items():
        assert (message.key, message.value) == committed[event]
    _assert_commit_order(list(first.values()))
    return Delivery(len(first), len(messages) - len(first))


def _committed(deployment: Deployment) -> dict[str, tuple[bytes, bytes]]:
    """id -> key and payload of every row in the outbox."""
    rows = deployment.database.execute("SELECT id::text, aggregate_id, payload::text FROM outbox")
    return {event: (key.encode(), payload.encode()) for event, key, payload in rows}


def _first_deliveries(messages: list[Received]) -> dict[str, Received]:
    first: dict[str, Received] = {}
    for message in sorted(messages, key=lambda message: (message.topic, message.partition, message.offset)):
        first.setdefault(event_id(message), message)
    return first


def _assert_commit_order(first: list[Received]) -> None:
    """Within a key by the writers' own numbers, and within a partition by the positions of the commits."""
    numbers: dict[tuple[bytes | None, int], int] = {}
    positions: dict[tuple[str, int], tuple[LSN, int]] = {}
    for message in first:
        where, position = (message.topic, message.partition), _position(message)
        before = positions.get(where, (LSN(0), 0))
        assert position > before, f"partition {where}: {position} was delivered after {before}"
        positions[where] = position
        if (number := _number(message)) is not None:
            key = (message.key, message.partition)
            assert number == numbers.get(key, 0) + 1, f"{key}: event {number} came after {numbers.get(key, 0)}"
            numbers[key] = number
    keys = [key for key, _ in numbers]
    assert len(keys) == len(set(keys)), "events of one key are in several partitions"


def _number(message: Received) -> int | None:
    """The number that the writers gave the event; None for one that is not theirs."""
    payload = json.loads(message.value or b"null")
    return payload.get("number") if isinstance(payload, dict) else None


def _position(message: Received) -> tuple[LSN, int]:
    lsn, _, ordinal = header(message, "position").partition(":")
    return LSN.parse(lsn), int(ordinal)
