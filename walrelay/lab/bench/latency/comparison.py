"""The comparison from beginning to end: each strategy in turn, in rounds, on the same servers."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any, NamedTuple

from psycopg.conninfo import make_conninfo

from walrelay.lab.bench.latency import account, database, processes, segment, strategies
from walrelay.lab.bench.latency.account import Measured
from walrelay.lab.bench.latency.meter import Meter, counter, server_settings
from walrelay.lab.bench.latency.processes import Watch
from walrelay.lab.bench.latency.segment import Stage, TopicEnd
from walrelay.lab.bench.latency.strategies import EXACTLY_ONCE, RELAY, WAYS
from walrelay.lab.bench.latency.writer import Order
from walrelay.lab.bench.machine import machine, versions
from walrelay.lab.bench.names import POSITIONS, ROLE, TOPIC
from walrelay.lab.bench.results import LatencyResult
from walrelay.lab.bench.screen import Screen
from walrelay.lab.bench.servers import Servers, kafka_version
from walrelay.lab.servers.backstage import Backstage, opened
from walrelay.lab.servers.interruption import Interruption
from walrelay.lab.servers.kafka import MockKafka
from walrelay.lab.servers.postgres import EmbeddedPostgres

# What comes once a minute or so would fall to one strategy or another: checkpoints are made between the segments. And
# the dead tuples that pollers leave are not vacuumed: what that costs comes on top of what is measured.
_SERVER = {"checkpoint_timeout": "1h", "max_wal_size": "4GB", "autovacuum": "off"}
_ALONE = "writer alone"
_REHEARSAL = Order(0, 0, "steady", 500, 3, 0)


class Wish(NamedTuple):
    """What was asked for. `seconds` of writing in a segment; `idle` seconds in those of the last round."""

    names: Sequence[str]
    mode: str
    rate: float
    seconds: float
    rounds: int
    idle: float
    command: str

    def workload(self) -> Mapping[str, Any]:
        """`rate` in commits a second; whole numbers without a decimal point."""
        numbers = {"rate": self.rate, "rounds": self.rounds, "seconds": self.seconds, "idle_seconds": self.idle}
        return {**{name: int(n) if n == int(n) else n for name, n in numbers.items()}, "mode": self.mode}


def compare(wish: Wish, servers: Servers, screen: Screen, interruption: Interruption) -> LatencyResult:
    """However it ends, nothing is left behind: no process, no directory, and nothing on the user's servers."""
    with opened(interruption) as (backstage, stack):
        return _compared(wish, servers, screen, backstage, stack)


def _compared(wish: Wish, servers: Servers, screen: Screen, backstage: Backstage, stack: ExitStack) -> LatencyResult:
    kafka = servers.kafka(backstage)
    if isinstance(kafka, MockKafka) and EXACTLY_ONCE in wish.names:
        screen.note(f"{EXACTLY_ONCE} cannot run here: {kafka.name} knows no fences")
        wish = wish._replace(names=[name for name in wish.names if name != EXACTLY_ONCE])
    own = {} if servers.dsn else server_settings(servers.programs().bin)
    postgres = servers.postgres(backstage, {**_SERVER, **own})
    with screen.step(postgres.name):
        dsn = postgres.ready()
    with screen.step(kafka.name):
        bootstrap_servers = kafka.ready()
        stack.enter_context(kafka.topics([TOPIC], screen.note, [POSITIONS]))
    with screen.step("outbox, publication and slot; a writer and a consumer"):
        environment = {**os.environ, "DATABASE_URL": dsn, "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers}
        settings = backstage.home / "walrelay.yaml"
        strategies.write_settings(settings)
        catalog = stack.enter_context(database.prepared(strategies.settings(environment), embedded=postgres.embedded))
        server = postgres.server if isinstance(postgres, EmbeddedPostgres) else None
        meter = Meter(catalog, counter(catalog, server))
        topic_end = stack.enter_context(closing(TopicEnd(bootstrap_servers, TOPIC, kafka.consumer_options)))
        people = processes.start(backstage, stack, environment, kafka.consumer_options)
    progress = stack.enter_context(screen.progress([_ALONE, *wish.names], wish.rounds))
    watch = Watch(people.commits, people.receipts, topic_end.offsets(), progress)
    stack.enter_context(watch.over(people.writer))
    stack.enter_context(watch.over(people.consumer))
    if postgres.embedded:
        environment["DATABASE_URL"] = make_conninfo(dsn, user=ROLE)
    stage = Stage(
        backstage, catalog, meter, watch, topic_end, progress, people.orders, settings, environment, postgres.embedded
    )
    _rehearse(stage)
    measured = _rounds(wish, stage)
    alone = measured.pop(_ALONE)
    return LatencyResult(
        strategies=account.strategies(measured, alone),
        writer_per_1000=meter.of_writer(account.per_1000(alone)),
        writer_cpu_s=account.cpu_of_each(alone),
        workload={**wish.workload(), "autovacuum": str(catalog.value("SHOW autovacuum"))},
        machine=machine(),
        versions=versions(str(catalog.value("SHOW server_version")), kafka_version(kafka)),
        command=wish.command,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
    )


def _rehearse(stage: Stage) -> None:
    """A segment that is not counted: until its JVM has compiled what it does, a broker takes far longer for it."""
    stage.progress.begin(1, "rehearsal")
    segment.measure(stage, WAYS[RELAY], _REHEARSAL, 0)


def _rounds(wish: Wish, stage: Stage) -> dict[str, list[Measured]]:
    """By name, the writer alone among them. Each round begins with another one: who comes first may have it harder."""
    names = [_ALONE, *wish.names]
    measured: dict[str, list[Measured]] = {name: [] for name in names}
    for number in range(wish.rounds):
        turn = number % len(names)
        idle = wish.idle if number == wish.rounds - 1 else 0.0
        for name in (*names[turn:], *names[:turn]):
            stage.progress.begin(number + 1, name)
            measured[name].append(_measured(wish, stage, name, number, idle))
            stage.progress.end(measured[name][-1])
    return measured


def _measured(wish: Wish, stage: Stage, name: str, number: int, idle: float) -> Measured:
    """The times of the commits are the same for all strategies of a round."""
    way = WAYS.get(name)
    seconds = max(wish.seconds, way.interval if way is not None else 0.0)
    return segment.measure(stage, way, Order(0, 0, wish.mode, wish.rate, seconds, number), idle)
