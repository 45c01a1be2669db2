"""Fixtures of all tests: real servers, each started once when first needed, and what tests do to their own."""

import faulthandler
import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tests import (
    rewriting,  # noqa: F401
    workers,
)
from tests.servers import choose
from tests.servers.aws import MotoServer, moto_is_installed
from tests.servers.choose import Address, Docker, Machine
from tests.servers.database import Database, Postgres
from tests.servers.kafka import KafkaServer
from tests.servers.nats import NatsServer, nats_cluster
from tests.servers.postgres import PostgresServer, Setting
from tests.servers.proxy import Proxy
from tests.servers.pubsub import PubsubServer
from tests.servers.pulsar import ProtectedPulsar, PulsarServer
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.redis import RedisServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.servicebus import ServicebusPeer, python_with_proton
from tests.servers.standby import Standby
from tests.servers.topics import Kafka
from tests.servers.webhook import WebhookReceiver
from walrelay.lab.servers.installed import nats_program, rabbitmq_programs, redis_program

T = TypeVar("T")

TESTS = Path(__file__).parent

STDERR = pytest.StashKey[int]()
_GRACE = 300  # seconds more than the time limit of a test


class PostgresMaker(Protocol):
    """Starts a PostgreSQL of the test's own: of any version, or of one."""

    def __call__(self, *, major: int | None = None, **settings: Setting) -> PostgresServer: ...


class StandbyMaker(Protocol):
    """Starts a standby of a server; `port` is where it finds it, a proxy's for example."""

    def __call__(
        self, primary: PostgresServer, *, slot: str = "standby_1", port: int | None = None, **settings: Setting
    ) -> Standby: ...


class KafkaMaker(Protocol):
    """Starts a broker of the test's own; the options are KafkaServer's."""

    def __call__(self, **options: Any) -> KafkaServer: ...


class RedisMaker(Protocol):
    """Makes servers, with options of the command line, or others of their kind."""

    def __call__(self, *options: Any, kind: type[RedisServer] = RedisServer) -> RedisServer: ...


class ProxyMaker(Protocol):
    """A proxy in front of a port on this machine."""

    def __call__(self, port: int) -> Proxy: ...


def pytest_configure(config: pytest.Config) -> None:
    """A shell starts what stands before an & with SIGINT and SIGQUIT ignored, and children would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    config.stash[STDERR] = os.dup(2)  # later it is captured


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A library that keeps the interpreter's lock and waits stops the time limit of a test as well: then the tests end,
    and say where.
    """
    marker = item.get_closest_marker("timeout")
    limit = float(marker.args[0] if marker else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit + _GRACE, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return workers.scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        workers.in_order(items)


@pytest.fixture(scope="session")
def machine() -> Machine:
    return choose.this_machine()


@pytest.fixture(scope="session")
def postgres(machine: Machine) -> Iterator[Postgres]:
    """The server that tests share, with wal2json where that is to be had. Not to be stopped."""
    found = _found(choose.shared_postgres, machine)
    with ExitStack() as stack:
        match found:
            case Address(dsn):
                yield Postgres(dsn)
            case Docker():
                from tests.servers.containers import postgres_container

                yield stack.enter_context(postgres_container())
            case programs:
                yield stack.enter_context(PostgresServer(programs))


@pytest.fixture(scope="session")
def postgres18(machine: Machine) -> Iterator[PostgresServer]:
    """A second shared server, of the newest version there is. Not to be stopped."""
    with PostgresServer(_found(choose.newest_postgres_programs, machine)) as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    """A fresh database on the shared server. Its slots, walsenders and backends end with the test."""
    fresh = postgres.create_database()
    yield fresh
    fresh.drop()


@pytest.fixture
def private_postgres(machine: Machine) -> Iterator[PostgresMaker]:
    """Makes servers that the test may stop, crash and configure."""
    with ExitStack() as stack:

        def make(*, major: int | None = None, **settings: Setting) -> PostgresServer:
            programs = _found(lambda machine: choose.postgres_programs(machine, major), machine)
            return stack.enter_context(PostgresServer(programs, settings))

        yield make


@pytest.fixture(scope="session")
def stoppable_postgres(machine: Machine) -> Iterator[PostgresServer]:
    """A server that tests may stop, for databases that something is published to; each finds it running."""
    with PostgresServer(_found(lambda machine: choose.postgres_programs(machine, None), machine)) as server:
        yield server


@pytest.fixture
def standby_of() -> Iterator[StandbyMaker]:
    """Makes standbys that the test may stop and promote."""
    with ExitStack() as stack:

        def make(
            primary: PostgresServer, *, slot: str = "standby_1", port: int | None = None, **settings: Setting
        ) -> Standby:
            return stack.enter_context(Standby(primary, settings, slot=slot, port=port))

        yield make


@pytest.fixture(scope="session")
def kafka(machine: Machine) -> Iterator[Kafka]:
    """The broker that tests share. Not to be stopped."""
    found = _found(choose.shared_kafka, machine)
    with ExitStack() as stack:
        match found:
            case Address(bootstrap_servers):
                yield Kafka(bootstrap_servers)
            case Docker():
                from tests.servers.containers import kafka_container

                yield stack.enter_context(kafka_container())
            case jars:
                yield stack.enter_context(KafkaServer(jars))


@pytest.fixture
def topic(kafka: Kafka, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a fresh topic: 3 partitions, or as many as `parametrize("topic", [n], indirect=True)` says."""
    name = kafka.create_topic(partitions=getattr(request, "param", 3))
    yield name
    kafka.delete_topics(name)


@pytest.fixture(scope="session")
def _stoppable_kafka(machine: Machine) -> Iterator[KafkaServer]:
    with KafkaServer(_found(choose.kafka_jars, machine)) as server:
        yield server


@pytest.fixture
def broker(_stoppable_kafka: KafkaServer) -> KafkaServer:
    """One that tests may stop and kill; they share it, each on its own topics, and each finds it running."""
    _stoppable_kafka.start()
    return _stoppable_kafka


@pytest.fixture
def private_kafka(machine: Machine) -> Iterator[KafkaMaker]:
    """Makes brokers that the test may stop and kill."""
    with ExitStack() as stack:

        def make(**options: Any) -> KafkaServer:
            return stack.enter_context(KafkaServer(_found(choose.kafka_jars, machine), **options))

        yield make


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitmqServer]:
    """The node that tests share. Not to be stopped."""
    with RabbitmqServer(_installed(rabbitmq_programs)) as server:
        yield server


@pytest.fixture(scope="session")
def stoppable_rabbitmq() -> Iterator[RabbitmqServer]:
    """A node that tests may stop; each finds it running."""
    with RabbitmqServer(_installed(rabbitmq_programs)) as server:
        yield server


@pytest.fixture(scope="session")
def nats() -> Iterator[NatsServer]:
    """The server with JetStream that tests share. Not to be stopped."""
    with NatsServer(_installed(nats_program)) as server:
        yield server


@pytest.fixture(scope="session")
def stoppable_nats() -> Iterator[NatsServer]:
    """One that tests may stop; each finds it running."""
    with NatsServer(_installed(nats_program)) as server:
        yield server


@pytest.fixture
def private_nats() -> Iterator[Callable[..., NatsServer]]:
    """Makes servers with settings of their own."""
    with ExitStack() as stack:
        yield lambda settings: stack.enter_context(NatsServer(_installed(nats_program), settings))


@pytest.fixture(scope="session")
def newest_nats() -> Iterator[NatsServer]:
    """One of the newest version, which tests may stop; each finds it running."""
    with NatsServer(_installed(choose.newest_nats_program)) as server:
        yield server


@pytest.fixture(scope="module", params=[nats_program, choose.newest_nats_program], ids=["debian", "newest"])
def nats_nodes(request: pytest.FixtureRequest) -> Iterator[list[NatsServer]]:
    """The three of a cluster, which the tests of a module may stop."""
    with nats_cluster(_installed(request.param)) as servers:
        yield servers


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """The server that tests share. Not to be stopped."""
    with RedisServer(_installed(redis_program)) as server:
        yield server


@pytest.fixture(scope="session")
def stoppable_redis() -> Iterator[RedisServer]:
    """One that tests may stop and kill; what it has answered is on disk."""
    with RedisServer(_installed(redis_program), "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture(scope="session")
def stoppable_redis_cluster() -> Iterator[RedisCluster]:
    """Three masters that tests may stop and kill; what they have answered is on disk."""
    with RedisCluster(_installed(redis_program), "--appendonly", "yes", "--appendfsync", "always") as cluster:
        yield cluster


@pytest.fixture
def failing_redis_cluster() -> Iterator[RedisCluster]:
    """Three masters, each with a replica that takes over when it dies."""
    with RedisCluster(_installed(redis_program), replicas=True, node_timeout=2_000) as cluster:
        yield cluster


@pytest.fixture
def private_redis() -> Iterator[RedisMaker]:
    """Makes servers that the test may stop and kill."""
    with ExitStack() as stack:
        yield _redis_maker(stack, redis_program)


@pytest.fixture
def private_valkey() -> Iterator[RedisMaker]:
    """The same of Valkey, which is newer than Debian's Redis."""
    with ExitStack() as stack:
        yield _redis_maker(stack, choose.newest_redis_program)


def _redis_maker(stack: ExitStack, look: Callable[[], Path]) -> RedisMaker:
    def make(*options: Any, kind: type[RedisServer] = RedisServer) -> RedisServer:
        return stack.enter_context(kind(_installed(look), *options))

    return make


@pytest.fixture(scope="session")
def _pulsar() -> Iterator[PulsarServer]:
    with PulsarServer(*_installed(choose.pulsar_programs)) as server:
        yield server


@pytest.fixture
def stoppable_pulsar(_pulsar: PulsarServer) -> PulsarServer:
    """A server that tests may stop and kill; each finds it running."""
    _pulsar.start()
    return _pulsar


@pytest.fixture(scope="session")
def protected_pulsar() -> Iterator[ProtectedPulsar]:
    """One that asks for credentials. Not to be stopped."""
    with ProtectedPulsar(*_installed(choose.pulsar_programs)) as server:
        yield server


@pytest.fixture(scope="session")
def stoppable_pubsub() -> Iterator[PubsubServer]:
    """A fake of Pub/Sub that tests may stop and kill; each finds it running."""
    with PubsubServer(_installed(choose.pubsub_program)) as server:
        yield server


@pytest.fixture(scope="session")
def _webhook_receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as server:
        yield server


@pytest.fixture
def stoppable_webhook(_webhook_receiver: WebhookReceiver) -> WebhookReceiver:
    """A receiver of webhooks that tests may stop and kill; each finds it running."""
    _webhook_receiver.start()
    return _webhook_receiver


@pytest.fixture(scope="session")
def _servicebus_peer() -> Iterator[ServicebusPeer]:
    with ServicebusPeer(_installed(python_with_proton)) as server:
        yield server


@pytest.fixture
def stoppable_servicebus(_servicebus_peer: ServicebusPeer) -> ServicebusPeer:
    """A peer that stands for Service Bus, which tests may stop and kill; each finds it running."""
    _servicebus_peer.start()
    return _servicebus_peer


@pytest.fixture(scope="session")
def _moto() -> Iterator[MotoServer]:
    _installed(moto_is_installed)
    with MotoServer() as server:
        yield server


@pytest.fixture
def stoppable_moto(_moto: MotoServer) -> MotoServer:
    """A fake of AWS that tests may stop and kill; each finds it running."""
    _moto.start()
    return _moto


@pytest.fixture
def proxy() -> Iterator[ProxyMaker]:
    """Makes proxies that break connections on purpose."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(Proxy(("127.0.0.1", port)))


@pytest.fixture(autouse=True)
def _no_slot_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """A slot left on the shared server would keep its WAL, and the next test would see it."""
    if "postgres" not in request.fixturenames:
        yield
        return
    server: Postgres = request.getfixturevalue("postgres")
    before = server.slots()
    yield
    assert server.slots() <= before, "the test left replication slots on the shared server"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured. A test that did not run for lack of a server must be seen, and so must that there was none."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"measured {name}: {value}")
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    lacking = sum(choose.SKIPPED_FOR_LACK in reason for reason in reasons)
    terminalreporter.write_line(f"skipped for lack of a server: {lacking}")


def _installed(look: Callable[[], T]) -> T:
    return choose.found(look)


def _found(look: Callable[[Machine], T], machine: Machine) -> T:
    return choose.found(lambda: look(machine))
