"""Fixtures of the contract tests: each sink with its broker, one after the other."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.brokers.aws import EventbridgeCase, KinesisCase, SnsCase, SqsCase
from tests.brokers.file import FileCase
from tests.brokers.nats import NatsCase
from tests.brokers.postgres import PostgresCase
from tests.brokers.pubsub import PubsubCase
from tests.brokers.pulsar import PulsarCase
from tests.brokers.rabbitmq import RabbitmqCase
from tests.brokers.redis import RedisCase
from tests.brokers.redis_cluster import RedisClusterCase
from tests.brokers.servicebus import ServicebusCase
from tests.brokers.webhook import WebhookCase
from tests.contract.cases import ForgettingCase, KafkaCase, MemoryCase, MockCase, SeveralCase, StdoutCase
from tests.servers.kafka import KafkaServer
from tests.servers.mock_kafka import MockKafka
from walrelay.testing import Case

BROKERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "file": ("tmp_path", FileCase),
    "postgres": ("stoppable_postgres", PostgresCase),
    "nats": ("stoppable_nats", NatsCase),
    "newest nats": ("newest_nats", NatsCase),
    "pulsar": ("stoppable_pulsar", PulsarCase),
    "rabbitmq": ("stoppable_rabbitmq", RabbitmqCase),
    "webhook": ("stoppable_webhook", WebhookCase),
    "pubsub": ("stoppable_pubsub", PubsubCase),
    "redis": ("stoppable_redis", RedisCase),
    "redis cluster": ("stoppable_redis_cluster", RedisClusterCase),
    "servicebus": ("stoppable_servicebus", ServicebusCase),
    "eventbridge": ("stoppable_moto", EventbridgeCase),
    "kinesis": ("stoppable_moto", KinesisCase),
    "sns": ("stoppable_moto", SnsCase),
    "sqs": ("stoppable_moto", SqsCase),
}
"""By the name of the case: the fixture of its server, and what makes the case of it."""


@pytest.fixture
def kafka_case(broker: KafkaServer) -> KafkaCase:
    return KafkaCase(broker)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """The sink that the test names."""
    match request.param:
        case "memory":
            yield MemoryCase()
        case "log" | "statistics" | "null":
            with closing(ForgettingCase(request.param)) as forgetting:
                yield forgetting
        case "stdout":
            stdout = StdoutCase()
            yield stdout
            stdout.close()
        case "mock":
            with MockKafka() as mock:
                yield MockCase(mock)
        case "several":
            with MockKafka() as mock:
                yield SeveralCase(MockCase(mock))
        case "kafka":
            kafka: KafkaCase = request.getfixturevalue("kafka_case")
            yield kafka
        case name:
            server, make = BROKERS[name]
            with closing(make(request.getfixturevalue(server))) as made:
                yield made
