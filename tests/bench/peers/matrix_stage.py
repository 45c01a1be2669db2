"""One case of one tool: servers of their own that may be stopped, and the truth about what arrived and when."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from tests.bench.peers.consumer import Event, number_of
from tests.bench.peers.contract import Outbox, Peer, Site, Variant
from tests.bench.peers.matrix_tool import Tool
from tests.bench.peers.workload import statement
from tests.servers import choose
from tests.servers.database import Database
from tests.servers.kafka import KafkaServer
from tests.servers.ports import LOOPBACK, free_port
from tests.servers.postgres import PostgresServer
from tests.servers.process import temporary_directory
from tests.servers.topics import Received
from tests.servers.waiting import wait_until

TOPIC = "outbox.event.order"

_FIRST_EVENT_WITHIN = 120.0
_LOOK_EVERY = 0.5


@dataclass(frozen=True)
class Stage:
    """Everything is made and configured; the tool is not started before somebody enters it."""

    postgres: PostgresServer
    kafka: KafkaServer
    database: Database
    outbox: Outbox
    site: Site
    tool: Tool

    def write(self, first: int, last: int) -> None:
        """One transaction with the events from one number to another."""
        self.database.execute(statement(self.outbox, str(first), str(last)))

    def position(self) -> int:
        """The end of the WAL."""
        ((position,),) = self.database.execute("SELECT pg_current_wal_insert_lsn() - '0/0'")
        return int(position)

    def committed(self) -> set[int]:
        """The numbers of all rows in the table."""
        return {
            int(number)
            for (number,) in self.database.execute("SELECT payload->>'number' FROM outbox WHERE payload ? 'number'")
        }

    def arrived(self) -> list[Event]:
        """Every event in the topic, partition by partition; its time is when the broker appended it."""
        received = (message for message in self.kafka.read_all(TOPIC) if number_of(message.value) >= 0)
        return sorted(map(_event, received), key=lambda event: (event.partition, event.offset))

    def wait_for(self, number: int, timeout: float = _FIRST_EVENT_WITHIN) -> None:
        """Until the event arrived."""
        wait_until(
            lambda: any(event.number == number for event in self.arrived()),
            timeout,
            f"event {number} of {self.site.directory}",
            interval=_LOOK_EVERY,
        )

    def settle(self, marker: int, silence: float, after_marker: float = 5.0) -> list[Event]:
        """Commits a last event, and returns what arrived when all is there or nothing more comes.

        silence: seconds without anything new that are waited for. Where the marker arrived, what was committed before
        it comes soon or never.
        """
        self.write(marker, marker)
        wanted = self.committed()
        progressed, arrived = monotonic(), self.arrived()
        while not wanted <= (numbers := {event.number for event in arrived}):
            if monotonic() - progressed > (after_marker if marker in numbers else silence):
                break
            sleep(_LOOK_EVERY)
            before, arrived = len(arrived), self.arrived()
            if len(arrived) > before:
                progressed = monotonic()
        return arrived


@contextmanager
def stage(peer: Peer, variant: Variant, log: Path) -> Iterator[Stage]:
    """The peer is installed already. Afterwards nothing is left of it but its log."""
    machine = choose.this_machine()
    directory = temporary_directory("matrix")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    with (
        PostgresServer(choose.postgres_programs(machine), {"checkpoint_timeout": "1h"}) as postgres,
        KafkaServer(choose.kafka_jars(machine)) as kafka,
    ):
        kafka.create_topic(TOPIC, partitions=3, config={"message.timestamp.type": "LogAppendTime"})
        database = postgres.create_database("shop")
        site = _site(postgres, kafka, directory)
        outbox = peer.outbox(variant)
        database.execute(outbox.ddl)
        peer.prepare(site, variant)
        yield Stage(postgres, kafka, database, outbox, site, Tool(peer.command(site, variant), log))
    shutil.rmtree(directory, ignore_errors=True)


def _site(postgres: PostgresServer, kafka: KafkaServer, directory: Path) -> Site:
    return Site(
        host=LOOPBACK,
        port=postgres.port,
        user="postgres",
        password="postgres",
        database="shop",
        bootstrap_servers=kafka.bootstrap_servers,
        topic=TOPIC,
        directory=directory,
        http_port=free_port(),
    )


def _event(message: Received) -> Event:
    key = (message.key or b"").decode(errors="backslashreplace")
    return Event(number_of(message.value), message.timestamp_ms / 1000, message.partition, message.offset, key)
