"""What holds of every sink when its broker dies, its connections break, or a message is refused (walrelay.testing)."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.breakable import BreakableCase, CaseOfPlugin, ServerCase
from tests.brokers.rabbitmq import RabbitmqLogins
from tests.brokers.redis import RedisLogins
from tests.conftest import ProxyMaker, RedisMaker
from tests.contract.cases import KAFKA
from tests.servers.rabbitmq import RabbitmqServer
from walrelay.testing import (
    ConnectionContract,
    LoginContract,
    PluginContract,
    RefusalContract,
    RestartContract,
)


def _slow(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


BEHIND_A_PROXY = [
    "nats",
    "postgres",
    "rabbitmq",
    "redis",
    "webhook",
    *_slow("newest nats", "pubsub", "pulsar", "servicebus"),
]

KEEPS = [*BEHIND_A_PROXY, KAFKA, *_slow("redis cluster")]
"""Their servers have what they acknowledged when they start again. Kafka and a Redis Cluster tell the client other
addresses than a proxy's, so their connections are broken by tests of their own."""

ALL = [*KEEPS, *_slow("sqs")]


@pytest.mark.parametrize("case", KEEPS, indirect=True)
class TestRestarts(RestartContract):
    pass


@pytest.mark.parametrize("case", BEHIND_A_PROXY, indirect=True)
class TestConnections(ConnectionContract):
    @pytest.fixture
    def case(self, case: ServerCase, proxy: ProxyMaker) -> BreakableCase:
        """A server that sends clients to another address has a proxy there."""
        return BreakableCase(case, getattr(case.server, "proxy", None) or proxy(case.server.port))


@pytest.mark.parametrize("case", ALL, indirect=True)
class TestRefusals(RefusalContract):
    pass


@pytest.mark.parametrize("case", ALL, indirect=True)
class TestPlugins(PluginContract):
    @pytest.fixture
    def case(self, case: ServerCase) -> CaseOfPlugin:
        return CaseOfPlugin(case)


class TestRabbitmqLogins(LoginContract):
    @pytest.fixture
    def case(self, stoppable_rabbitmq: RabbitmqServer) -> Iterator[RabbitmqLogins]:
        with closing(RabbitmqLogins(stoppable_rabbitmq)) as made:
            yield made


class TestRedisLogins(LoginContract):
    @pytest.fixture
    def case(self, private_redis: RedisMaker, tmp_path: Path) -> Iterator[RedisLogins]:
        with closing(RedisLogins(private_redis, tmp_path)) as made:
            yield made
