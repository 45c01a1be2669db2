"""`walrelay bench latency`: each strategy in turn, in rounds, on the same servers.

A segment is one strategy alone on the stage, from empty tables until nothing more can come of it.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from confluent_kafka import Consumer
from psycopg.conninfo import make_conninfo

from walrelay import compose
from walrelay.errors import Fatal
from walrelay.lab.bench import account, database
from walrelay.lab.bench.account import LatencyAccount, Measured, difference, scaled
from walrelay.lab.bench.child import POSITIONS, ROLE, SLOT, TOPIC, peak_rss_bytes
from walrelay.lab.bench.database import Meter, counter, server_settings
from walrelay.lab.bench.ends import Assignment, warm_up
from walrelay.lab.bench.machine import Servers, cpu_s, kafka_version, machine, versions
from walrelay.lab.bench.processes import (
    EXACTLY_ONCE,
    RELAY,
    WAYS,
    Overseer,
    Way,
    relay_settings,
    start_asking,
    start_ends,
    write_settings,
)
from walrelay.lab.bench.results import Cost, LatencyRequest, LatencyResult, turns
from walrelay.lab.bench.screen import SegmentProgress
from walrelay.lab.screen import Screen
from walrelay.lab.servers.backstage import Backstage, Child, Interruption, opened
from walrelay.lab.servers.kafka import QUIET, MockKafka, explained, topic_ends
from walrelay.lab.servers.postgres import EmbeddedPostgres
from walrelay.postgres.catalog import Catalog

# What comes once a minute or so would fall to one strategy or another: checkpoints are made between the segments. And
# the dead tuples that pollers leave are not vacuumed: what that costs comes on top of what is measured.
_SERVER = {"checkpoint_timeout": "1h", "max_wal_size": "4GB", "autovacuum": "off"}
_ALONE = "writer alone"

# Until its JVM has compiled what it does, a broker takes far longer for it: a Kafka transaction takes 17 ms in the
# first second, 4 from the fifth on.
_REHEARSALS = {
    RELAY: Assignment(0, 0, "steady", 500, 8, 0),
    EXACTLY_ONCE: Assignment(0, 0, "steady", 400, 8, 0),
}


_ANSWERED = 0.9  # the share of requests at the admin API that must be answered


class TopicEnd:
    """Asks the brokers; reads nothing. `options` are librdkafka's."""

    def __init__(self, bootstrap_servers: str, topic: str, options: Mapping[str, Any]) -> None:
        self._topic = topic
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "walrelay-bench"}
        with explained(f"the topics cannot be read at {bootstrap_servers}"):
            self._client = Consumer({**QUIET, **settings, **options})

    def offsets(self) -> Mapping[int, int]:
        return topic_ends(self._client, self._topic)

    def close(self) -> None:
        self._client.close()


_PATIENCE = 15.0  # seconds without an arrival, and without a reason for it, after which what is missing is lost


class Stage(NamedTuple):
    """What all segments share."""

    backstage: Backstage
    catalog: Catalog
    meter: Meter
    overseer: Overseer
    topic_end: TopicEnd
    progress: SegmentProgress
    writer: Child
    assignments: IO[str]  # the writer's
    settings: Path  # the relay's
    environment: Mapping[str, str]  # the workers'
    owner: Mapping[str, str]  # the same for the role that owns the tables
    embedded: bool


def measure(stage: Stage, way: Way | None, assignment: Assignment, idle: float) -> Measured:
    """`way` None: the writer alone. `idle`: seconds afterwards in which nothing is written; 0: none."""
    catalog, meter, overseer = stage.catalog, stage.meter, stage.overseer
    database.renew(catalog, SLOT, embedded=stage.embedded)
    number, account = overseer.open(len(assignment.times))
    stage.progress.follow(account)
    direct = way is not None and way.direct
    with database.notifying(catalog) if way is not None and way.listens else nullcontext():
        first = meter.read()
        warming = _command(stage, warm_up(number)._replace(direct=direct))
        if not overseer.until(lambda: account.warming == warming, _PATIENCE):
            raise Fatal(f"the writer committed only {account.warming} of {warming} events")
        started = time.monotonic_ns()
        with _running(stage, way) as worker:
            if way is not None and not overseer.until(lambda: account.warm == warming, _PATIENCE):
                raise (worker or stage.writer).failure(f"published nothing within {_PATIENCE:g} s")
            _await_marks(stage, way)
            reading = partial(_reading, stage, way, worker)
            before = reading()
            _write(stage, way, assignment._replace(segment=number, direct=direct), account)
            spent = difference(reading(), before)
            idle_minute = _idle(stage, reading, first, idle) if idle else None
            rss_bytes = peak_rss_bytes(worker.pid) if worker else None
        meter.await_statistics(first)
        dead = difference(meter.read(), first).dead_tuples
    ends = stage.topic_end.offsets()  # the worker has left: nothing comes after these
    overseer.until(lambda: overseer.has_read(ends), _PATIENCE)
    share = account.committed / (account.committed + warming)  # when a dead tuple becomes known is not up to us
    spent = spent._replace(dead_tuples=None if dead is None else dead * share)
    first_event_s = (account.first_ns - started) / 1e9 if worker and account.first_ns else None
    return Measured(account, spent, idle_minute, rss_bytes, first_event_s)


def _reading(stage: Stage, way: Way | None, worker: Child | None) -> Cost:
    """The CPU of the writer is no worker's; what producing adds to it in `direct` is not told from the rest."""
    if way is None:
        return stage.meter.read(0.0)
    return stage.meter.read(cpu_s(worker.pid) if worker else None)


@contextmanager
def _running(stage: Stage, way: Way | None) -> Iterator[Child | None]:
    """The worker, if there is one; it leaves in good order, and is gone before anything else is."""
    if way is None or way.direct:
        yield None
        return
    worker = stage.backstage.start(way.name, way.command(stage.settings), environment=stage.environment)
    try:
        with stage.overseer.over(worker), _asked(stage, way.asked) if way.asked else nullcontext():
            yield worker
        if worker.end(signal.SIGTERM, _PATIENCE) != 0:
            raise worker.failure("did not stop cleanly")
    finally:
        worker.end(signal.SIGTERM)


@contextmanager
def _asked(stage: Stage, rate: int) -> Iterator[None]:
    """The admin API is asked so often a second; Fatal if it was not."""
    api, asks = start_asking(stage.backstage, stage.settings, stage.owner, rate)
    try:
        with stage.overseer.over(api), stage.overseer.over(asks):
            yield
        asks.end(signal.SIGTERM, _PATIENCE)
        told = json.loads(asks.output.readline())
        answered = sum(count for answer, count in told["answers"].items() if answer == "200")
        if answered < _ANSWERED * rate * told["seconds"]:
            raise Fatal(f"the admin API was to answer {rate} requests/s, and did: {told}")
    finally:
        asks.end(signal.SIGTERM)
        api.end(signal.SIGTERM)


def _write(stage: Stage, way: Way | None, assignment: Assignment, account: LatencyAccount) -> None:
    """Until everything has arrived, or has had the time to."""
    overseer = stage.overseer
    _command(stage, assignment)
    if not overseer.until(lambda: account.written, _PATIENCE + assignment.seconds, lambda: account.committed):
        raise Fatal(f"the writer committed {account.committed} events of {account.expected} and no more")
    if way is not None:
        overseer.until(lambda: account.complete, _PATIENCE + way.longest_pause, lambda: account.received)
        if not account.received:
            raise Fatal(f"{way.name} published none of {account.committed} events")
    _await_marks(stage, way)


def _command(stage: Stage, assignment: Assignment) -> int:
    """Returns how many events there will be."""
    stage.assignments.write(json.dumps(assignment) + "\n")
    stage.assignments.flush()
    return len(assignment.times)


def _await_marks(stage: Stage, way: Way | None) -> None:
    """A poller has paid for an event when it has marked it; the consumer has it before that."""
    if way is not None and way.polling:
        stage.overseer.until(lambda: database.all_published(stage.catalog), _PATIENCE)


def _idle(stage: Stage, reading: Callable[[], Cost], first: Cost, seconds: float) -> Cost:
    stage.progress.idle(seconds)
    stage.meter.await_statistics(first)
    before, deadline = reading(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        stage.overseer.look_after(0.1)
    return scaled(difference(reading(), before), 60 / seconds)


def compare(request: LatencyRequest, servers: Servers, screen: Screen, interruption: Interruption) -> LatencyResult:
    """However it ends, nothing is left behind: no process, no directory, and nothing on the user's servers."""
    with opened(interruption) as (backstage, stack):
        return _compared(request, servers, screen, backstage, stack)


def _compared(
    request: LatencyRequest, servers: Servers, screen: Screen, backstage: Backstage, stack: ExitStack
) -> LatencyResult:
    kafka = servers.kafka(backstage)
    if isinstance(kafka, MockKafka) and EXACTLY_ONCE in request.names:
        screen.note(f"{EXACTLY_ONCE} cannot run here: {kafka.name} does not fence off producers")
        request = request._replace(names=[name for name in request.names if name != EXACTLY_ONCE])
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
        write_settings(settings)
        wiring = compose.wiring(relay_settings(environment))
        catalog = stack.enter_context(database.prepared(wiring, embedded=postgres.embedded))
        server = postgres.server if isinstance(postgres, EmbeddedPostgres) else None
        meter = Meter(catalog, counter(catalog, server))
        topic_end = stack.enter_context(closing(TopicEnd(bootstrap_servers, TOPIC, kafka.consumer_options)))
        ends = start_ends(backstage, stack, environment, kafka.consumer_options)
    progress = stack.enter_context(SegmentProgress(screen.console, [_ALONE, *request.names], request.rounds))
    overseer = Overseer(ends.commits, ends.receipts, topic_end.offsets(), progress)
    stack.enter_context(overseer.over(ends.writer))
    stack.enter_context(overseer.over(ends.consumer))
    owner = {**environment}
    if postgres.embedded:
        environment["DATABASE_URL"] = make_conninfo(dsn, user=ROLE)
    stage = Stage(
        backstage,
        catalog,
        meter,
        overseer,
        topic_end,
        progress,
        ends.writer,
        ends.assignments,
        settings,
        environment,
        owner,
        postgres.embedded,
    )
    _rehearse(stage, request.names)
    measured = _rounds(request, stage)
    alone = measured.pop(_ALONE)
    return LatencyResult(
        strategies=account.strategies(measured, alone),
        writer_per_1000=meter.of_writer(account.per_1000(alone)),
        writer_cpu_s=account.cpu_of_each(alone),
        workload={**request.workload(), "autovacuum": str(catalog.value("SHOW autovacuum"))},
        machine=machine(),
        versions=versions(str(catalog.value("SHOW server_version")), kafka_version(kafka)),
        command=request.command,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
    )


def _rehearse(stage: Stage, names: Sequence[str]) -> None:
    """Segments that are not counted."""
    for name, assignment in _REHEARSALS.items():
        if name in (RELAY, *names):
            stage.progress.begin(1, "rehearsal")
            measure(stage, WAYS[name], assignment, 0)


def _rounds(request: LatencyRequest, stage: Stage) -> dict[str, list[Measured]]:
    """By name, the writer alone among them. Each round begins with another one: who comes first may have it harder."""
    names = [_ALONE, *request.names]
    measured: dict[str, list[Measured]] = {name: [] for name in names}
    for number in range(request.rounds):
        idle = request.idle if number == request.rounds - 1 else 0.0
        for name in turns(names, number):
            stage.progress.begin(number + 1, name)
            measured[name].append(_measured(request, stage, name, number, idle))
            stage.progress.end(measured[name][-1])
    return measured


def _measured(request: LatencyRequest, stage: Stage, name: str, number: int, idle: float) -> Measured:
    """The times of the commits are the same for all strategies of a round."""
    way = WAYS.get(name)
    seconds = max(request.seconds, way.interval if way is not None else 0.0)
    return measure(stage, way, Assignment(0, 0, request.mode, request.rate, seconds, number), idle)
