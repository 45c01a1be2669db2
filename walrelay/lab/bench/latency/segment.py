"""One segment: one strategy alone on the stage, from empty tables until nothing more can come of it."""

import json
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple

from confluent_kafka import Consumer

from walrelay.errors import Fatal
from walrelay.lab.bench.latency import database, writer
from walrelay.lab.bench.latency.account import Account, Measured, difference, scaled
from walrelay.lab.bench.latency.meter import Meter
from walrelay.lab.bench.latency.processes import Watch
from walrelay.lab.bench.latency.strategies import Way
from walrelay.lab.bench.latency.writer import Order
from walrelay.lab.bench.names import SLOT
from walrelay.lab.bench.results import Cost
from walrelay.lab.bench.screen import Progress
from walrelay.lab.servers.backstage import Backstage, Child
from walrelay.lab.servers.kafka import QUIET, explained, topic_ends
from walrelay.postgres.catalog import Catalog


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
    watch: Watch
    topic_end: TopicEnd
    progress: Progress
    orders: IO[str]  # the writer's
    settings: Path  # the relay's
    environment: Mapping[str, str]  # the workers'
    embedded: bool


def measure(stage: Stage, way: Way | None, order: Order, idle: float) -> Measured:
    """`way` None: the writer alone. `idle`: seconds afterwards in which nothing is written; 0: none."""
    catalog, meter, watch = stage.catalog, stage.meter, stage.watch
    database.renew(catalog, SLOT, embedded=stage.embedded)
    number, account = watch.open(len(order.times))
    stage.progress.follow(account)
    with database.bell(catalog) if way is not None and way.listens else nullcontext():
        first = meter.read()
        warm_up = _command(stage, writer.warm_up(number))
        if not watch.until(lambda: account.warming == warm_up, _PATIENCE):
            raise Fatal(f"the writer committed {account.warming} events of {warm_up} and no more")
        with _running(stage, way) as worker:
            if worker is not None and not watch.until(lambda: account.warm == warm_up, _PATIENCE):
                raise worker.failure(f"published nothing within {_PATIENCE:g} s")
            _await_marks(stage, way)
            before = meter.read()
            _write(stage, way, order._replace(segment=number), account)
            spent = difference(meter.read(), before)
            idle_minute = _idle(stage, first, idle) if idle else None
        meter.await_statistics(first)
        dead = difference(meter.read(), first).dead_tuples
    ends = stage.topic_end.offsets()  # the worker has left: nothing comes after these
    watch.until(lambda: watch.has_read(ends), _PATIENCE)
    share = account.committed / (account.committed + warm_up)  # when a dead tuple becomes known is not up to us
    return Measured(account, spent._replace(dead_tuples=None if dead is None else dead * share), idle_minute)


@contextmanager
def _running(stage: Stage, way: Way | None) -> Iterator[Child | None]:
    """The worker; it leaves in good order, and is gone before anything else is."""
    if way is None:
        yield None
        return
    worker = stage.backstage.start(way.name, way.command(stage.settings), environment=stage.environment)
    try:
        with stage.watch.over(worker):
            yield worker
        if worker.end(signal.SIGTERM, _PATIENCE) != 0:
            raise worker.failure("did not leave in good order")
    finally:
        worker.end(signal.SIGTERM)


def _write(stage: Stage, way: Way | None, order: Order, account: Account) -> None:
    """Until everything has arrived, or has had the time to."""
    watch = stage.watch
    _command(stage, order)
    if not watch.until(lambda: account.written, _PATIENCE + order.seconds, lambda: account.committed):
        raise Fatal(f"the writer committed {account.committed} events of {account.expected} and no more")
    if way is not None:
        watch.until(lambda: account.complete, _PATIENCE + way.longest_pause, lambda: account.received)
        if not account.received:
            raise Fatal(f"{way.name} published none of {account.committed} events")
    _await_marks(stage, way)


def _command(stage: Stage, order: Order) -> int:
    """Returns how many events there will be."""
    stage.orders.write(json.dumps(order) + "\n")
    stage.orders.flush()
    return len(order.times)


def _await_marks(stage: Stage, way: Way | None) -> None:
    """A poller has paid for an event when it has marked it; the consumer has it before that."""
    if way is not None and way.polling:
        stage.watch.until(lambda: database.all_published(stage.catalog), _PATIENCE)


def _idle(stage: Stage, first: Cost, seconds: float) -> Cost:
    stage.progress.idle(seconds)
    stage.meter.await_statistics(first)
    before, deadline = stage.meter.read(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        stage.watch.look_after(0.1)
    return scaled(difference(stage.meter.read(), before), 60 / seconds)
