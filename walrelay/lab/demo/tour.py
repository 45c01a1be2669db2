"""The tour from beginning to end."""

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.resources import as_file, files
from queue import SimpleQueue
from typing import NamedTuple

from walrelay import config
from walrelay.lab.demo import database
from walrelay.lab.demo.reader import TOPIC, Reader
from walrelay.lab.demo.screen import Screen
from walrelay.lab.demo.tally import News, Result
from walrelay.lab.demo.watch import Watch, relay_failure
from walrelay.lab.demo.writer import Work, writing
from walrelay.lab.servers.backstage import Backstage, Child, opened
from walrelay.lab.servers.interruption import Interruption
from walrelay.lab.servers.kafka import MockKafka, RealKafka
from walrelay.lab.servers.postgres import EmbeddedPostgres, OwnPostgres

_SETTINGS = files("walrelay.lab.demo").joinpath("walrelay.yaml")
_SWITCH_INTERVAL = 0.0002  # seconds


class Wish(NamedTuple):
    """What was asked for. `rate`: transactions a second, 0 for no limit; no address: a server of the demo's own."""

    events: int
    rate: float
    dsn: str | None
    bootstrap_servers: str | None


def tour(wish: Wish, screen: Screen, interruption: Interruption) -> Result:
    """However it ends, nothing is left behind: no process, no directory, and nothing on the user's servers."""
    # Writer, reader and screen share an interpreter: while the screen is drawn the reader would wait up to 5 ms for
    # it, which would show as latency of the relay.
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with opened(interruption) as (backstage, stack):
        return _toured(wish, screen, backstage, stack)


def _toured(wish: Wish, screen: Screen, backstage: Backstage, stack: ExitStack) -> Result:
    kafka = RealKafka(wish.bootstrap_servers) if wish.bootstrap_servers else MockKafka(backstage)
    postgres = OwnPostgres(wish.dsn) if wish.dsn else EmbeddedPostgres(backstage)
    news: News = SimpleQueue()
    with screen.step(postgres.name):
        dsn = postgres.ready()
    with screen.step(kafka.name):
        bootstrap_servers = kafka.ready()
        stack.enter_context(kafka.topics([TOPIC], screen.note))
        stack.enter_context(Reader(bootstrap_servers, kafka.consumer_options, news))
    with screen.step("outbox, publication and slot, as [bold]walrelay init[/] makes them"):
        if postgres.embedded:
            database.make_roles(dsn)
        owner, relays, writers = map(postgres.as_role, (database.OWNER, database.RELAY, database.WRITER))
        environment = {"DATABASE_URL": owner, "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers}
        settings = config.parse(_SETTINGS.read_text(encoding="utf-8"), "walrelay.yaml", environment)
        emit = stack.enter_context(database.prepared(settings, embedded=postgres.embedded))
    stream = screen.stream(wish.events)
    with screen.step("the relay, as [bold]walrelay run[/], and a first event through it"):
        relay = _relay(backstage, stack, {**environment, "DATABASE_URL": relays})
        watch = Watch(news, relay, stream)
        watch.until_greeted(database.greet(writers, emit))
    with stream, writing(Work(writers, emit, wish.events, wish.rate), news):
        watch.until_complete()
    if relay.end(signal.SIGTERM) != 0:  # it settles what is under way: after it nothing more can come
        raise relay_failure(relay)
    watch.linger()
    return watch.tally.result()


def _relay(backstage: Backstage, stack: ExitStack, environment: Mapping[str, str]) -> Child:
    """In a process of its own, by the command that everybody uses. It leaves before its slot is removed."""
    settings = stack.enter_context(as_file(_SETTINGS))
    command = [sys.executable, "-m", "walrelay", "run", "--config", str(settings)]
    relay = backstage.start("the relay", command, environment={**os.environ, **environment})
    stack.callback(relay.end, signal.SIGTERM)
    return relay
