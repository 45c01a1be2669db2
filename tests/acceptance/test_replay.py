"""`walrelay replay`: rows of the table published again, and nothing else."""

import re
import time
from collections import Counter

import pytest

from tests.acceptance.backfill_process import BackfillProcess
from tests.acceptance.conftest import Deploy, Measured
from tests.acceptance.deployment import Deployment, event_id, header
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.topics import Kafka, Received
from tests.servers.waiting import wait_until


@pytest.fixture
def published(deployment: Deployment) -> Deployment:
    """Three orders and a customer, published by a relay that runs on."""
    deployment.database.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, created_at) VALUES"
        " ('order', '1', 'Placed', '1', '2026-11-20 10:00+00'), ('order', '2', 'Placed', '2', '2026-11-20 11:00+00'),"
        " ('order', '1', 'Paid', '3', '2026-11-20 12:00+00'), ('customer', '1', 'Joined', '4', '2026-11-20 13:00+00')"
    )
    deployment.start()
    deployment.catch_up()
    return deployment


def replayed(deployment: Deployment, *topics: str) -> list[Received]:
    """The messages with the header that says so."""
    messages = deployment.kafka.read_all(*(topics or (deployment.topic,)))
    return [message for message in messages if ("replayed", b"true") in message.headers]


def values(messages: list[Received]) -> set[bytes | None]:
    return {message.value for message in messages}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--all"], {b"1", b"2", b"3", b"4"}),
        (["--from", "2026-11-20T11:00:00Z"], {b"2", b"3", b"4"}),
        (["--to", "2026-11-20T12:00:00Z"], {b"1", b"2"}),
        (["--from", "2026-11-20T13:30:00+02:00", "--to", "2026-11-20T13:00Z"], {b"3"}),
        (["--aggregate", "order"], {b"1", b"2", b"3"}),
        (["--aggregate", "order:1"], {b"1", b"3"}),
        (["--aggregate", "order:2", "--aggregate", "customer"], {b"2", b"4"}),
        (["--type", "Placed", "--type", "Joined"], {b"1", b"2", b"4"}),
        (["--type", "Placed", "--aggregate", "order:1"], {b"1"}),
    ],
)
def test_the_rows_that_all_filters_match_are_published_again(
    published: Deployment, filters: list[str], expected: set[bytes]
) -> None:
    told = published.command("replay", *filters)
    assert values(replayed(published)) == expected
    assert len(replayed(published)) == len(expected)
    assert f"published {len(expected)} rows again" in told
