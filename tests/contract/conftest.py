"""Fixtures of the contract tests: each sink with its broker, one after the other."""

from collections.abc import Iterator

import pytest

from tests.contract.cases import Case, KafkaCase, MemoryCase, StdoutCase
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.kafka import KafkaServer


@pytest.fixture(scope="session")
def contract_broker(machine: Machine) -> Iterator[KafkaServer]:
    """A broker that the tests stop, kill and start."""
    try:
        jars = choose.kafka_jars(machine)
    except choose.Missing as missing:
        choose.give_up(missing)
    with KafkaServer(jars) as server:
        yield server


@pytest.fixture
def kafka_case(contract_broker: KafkaServer) -> KafkaCase:
    contract_broker.start()
    return KafkaCase(contract_broker)


@pytest.fixture(params=["memory", "stdout", "kafka"])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """The sinks that are tested; some tests name those whose broker can be away."""
    match request.param:
        case "memory":
            yield MemoryCase()
        case "stdout":
            stdout = StdoutCase()
            yield stdout
            stdout.close()
        case _:
            kafka: KafkaCase = request.getfixturevalue("kafka_case")
            yield kafka
