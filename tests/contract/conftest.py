"""Fixtures of the contract tests: each sink with its broker, one after the other."""

from collections.abc import Iterator

import pytest

from tests.contract.cases import KafkaCase, MemoryCase, MockCase, RabbitmqCase, SeveralCase, StdoutCase
from tests.servers.kafka import KafkaServer
from tests.servers.mock_kafka import MockKafka
from walrelay.testing import Case


@pytest.fixture
def kafka_case(broker: KafkaServer) -> KafkaCase:
    return KafkaCase(broker)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """The sink that the test names."""
    match request.param:
        case "memory":
            yield MemoryCase()
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
        case "rabbitmq":
            made = RabbitmqCase(request.getfixturevalue("stoppable_rabbitmq"))
            yield made
            made.close()
        case _:
            kafka: KafkaCase = request.getfixturevalue("kafka_case")
            yield kafka
