"""A relay under writers, and everything around it breaking at random, one thing at a time."""

import os
import random
import signal
from collections.abc import Callable
from typing import NamedTuple

from tests.acceptance.deployment import Deployment
from tests.acceptance.relay_process import RelayProcess
from tests.acceptance.writing import Writers
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy


class World(NamedTuple):
    """Everything that can break. The relay reaches both servers through proxies."""

    deployment: Deployment
    writers: Writers
    postgres: PostgresServer
    way_to_postgres: Proxy
    kafka: KafkaServer
    rng: random.Random

    @property
    def relay(self) -> RelayProcess:
        """The one that runs."""
        return self.deployment.relays[-1]

    def meanwhile(self) -> None:
        """Some load, while the fault lasts."""
        self.writers.wait_for_more(self.rng.randint(1, 200), timeout=60)


def relay_killed(world: World) -> None:
    world.relay.kill()
    world.deployment.launch()


def relay_restarted(world: World) -> None:
    world.relay.send(signal.SIGTERM)
    assert world.relay.wait(60) in (0, -signal.SIGTERM), world.relay.log[-5:]  # the latter while Python still starts
    world.meanwhile()
    world.deployment.launch()


def relay_frozen(world: World) -> None:
    world.relay.send(signal.SIGSTOP)
    world.meanwhile()
    world.relay.send(signal.SIGCONT)


def kafka_stopped(world: World) -> None:
    world.kafka.stop()
    world.meanwhile()
    world.kafka.start()


def kafka_killed(world: World) -> None:
    world.kafka.kill()
    world.meanwhile()
    world.kafka.start()


def kafka_frozen(world: World) -> None:
    os.kill(world.kafka.pid, signal.SIGSTOP)
    world.meanwhile()
    os.kill(world.kafka.pid, signal.SIGCONT)


def kafka_connections_cut(world: World) -> None:
    world.kafka.proxy.cut()


def kafka_connections_stalled(world: World) -> None:
    world.kafka.proxy.stall()
    world.meanwhile()
    world.kafka.proxy.resume()


def postgres_restarted(world: World) -> None:
    world.postgres.restart("fast")


def postgres_crashed(world: World) -> None:
    world.postgres.restart("immediate")


def postgres_connections_cut(world: World) -> None:
    world.way_to_postgres.cut()


def postgres_connections_stalled(world: World) -> None:
    world.way_to_postgres.stall()
    world.meanwhile()
    world.way_to_postgres.resume()


def postgres_connections_half_open(world: World) -> None:
    world.way_to_postgres.half_open()
    world.meanwhile()
    world.way_to_postgres.resume()


FAULTS: list[Callable[[World], None]] = [
    *(relay_killed, relay_restarted, relay_frozen),
    *(kafka_stopped, kafka_killed, kafka_frozen, kafka_connections_cut, kafka_connections_stalled),
    *(postgres_restarted, postgres_crashed),
    *(postgres_connections_cut, postgres_connections_stalled, postgres_connections_half_open),
]
