"""What every sink owes the relay (walrelay.publish.Sink), tested against its real broker."""

import pytest

from tests.contract.cases import KAFKA, SLOW
from walrelay.testing import AwayContract, ReceiptContract, SinkContract


@pytest.mark.parametrize("case", ["log", "statistics", "null"], indirect=True)
class TestKeepsNothing(ReceiptContract):
    pass


@pytest.mark.parametrize("case", ["memory", "file"], indirect=True)
class TestAlwaysThere(SinkContract):
    pass


@pytest.mark.parametrize(
    "case",
    ["stdout", "mock", "several", "nats", "postgres", "rabbitmq", "webhook", "redis", KAFKA, *SLOW],
    indirect=True,
)
class TestAway(AwayContract):
    pass
