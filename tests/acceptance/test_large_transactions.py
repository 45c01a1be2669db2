"""Long and large transactions: commit order, and no more memory than for small ones."""

import json

import pytest

from tests.acceptance.checking import assert_delivered
from tests.acceptance.conftest import Measured
from tests.acceptance.deployment import Deployment
from tests.servers.topics import Kafka, Received

MILLION = 1_000_000
MEMORY_LIMIT = 200_000_000


@pytest.mark.timeout(600)
def test_a_transaction_of_a_million_rows_takes_less_than_200_mb(deployment: Deployment, measured: Measured) -> None:
    relay = deployment.start()
    deployment.write_rows(MILLION, keys=1000)
    deployment.write('{"n": 0}')
    deployment.catch_up(timeout=300)
    measured("peak RSS in bytes with a transaction of a million rows", relay.peak_rss_bytes)
    assert relay.peak_rss_bytes < MEMORY_LIMIT
    assert len(relay.events("streaming")) == 1
    relay.stop()
    numbers = [number_in(message) for message in deployment.delivered()]
    assert sorted(numbers) == list(range(MILLION + 1))


@pytest.mark.parametrize("topic", [1], indirect=True)
def test_interleaved_long_and_short_transactions_arrive_in_commit_order(deployment: Deployment, kafka: Kafka) -> None:
    deployment.start()
    long, middle = (deployment.database.connect(autocommit=False) for _ in range(2))
    emit = "SELECT walrelay.emit('thing', 'a', 'Happened', jsonb_build_object('n', %s::int))"
    long.execute(emit, [7])
    deployment.write('{"n": 1}')
    middle.execute(emit, [4])
    long.execute(emit, [8])
    deployment.write('{"n": 2}', '{"n": 3}')
    middle.execute(emit, [5])
    middle.commit()
    deployment.write('{"n": 6}')
    long.execute(emit, [9])
    long.commit()
    deployment.write('{"n": 10}')
    for connection in (long, middle):
        connection.close()
    deployment.catch_up()
    assert_delivered(deployment)
    assert [number_in(message) for message in deployment.delivered()] == list(range(1, 11))


def number_in(message: Received) -> int:
    number = json.loads(message.value or b"")["n"]
    assert isinstance(number, int)
    return number
