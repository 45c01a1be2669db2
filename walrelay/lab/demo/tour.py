"""The tour from beginning to end, and its objects in the database, made by the code of `walrelay init`."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple
from uuid import uuid4

from walrelay import compose, config
from walrelay.errors import Fatal
from walrelay.lab.brokers.contract import LabBroker
from walrelay.lab.brokers.kinds import own_or_users
from walrelay.lab.demo.ends import COUNTERS, TOPIC, ArrivalReader, WritingTask, writing
from walrelay.lab.demo.events import (
    Change,
    Delivered,
    DemoTally,
    Failed,
    Inserted,
    Item,
    News,
    Result,
    RolledBack,
    WriterDone,
)
from walrelay.lab.demo.screen import DemoScreen, EventLines
from walrelay.lab.servers import guest
from walrelay.lab.servers.backstage import Backstage, Child, Interruption, opened
from walrelay.lab.servers.postgres import EmbeddedPostgres, OwnPostgres
from walrelay.postgres.catalog import Catalog
from walrelay.wiring import Wiring

_SLOT_PATIENCE = 30.0  # seconds to wait for open transactions when the slot is made

_SCHEMA = "walrelay_demo"
_MARK = "Made by walrelay demo, which also removes it."

_SHOP = f"""
CREATE SCHEMA walrelay_demo;
COMMENT ON SCHEMA walrelay_demo IS '{_MARK}';
CREATE TABLE walrelay_demo.orders (
    id text PRIMARY KEY, customer text NOT NULL, total numeric NOT NULL, status text NOT NULL
);
"""

# The roles of docs/security.md: nobody who works in the demo is a superuser.
OWNER, RELAY, WRITER = "outbox_owner", "relay", "shop"

_ROLES = f"""
CREATE ROLE {OWNER} LOGIN REPLICATION;
GRANT CREATE ON DATABASE postgres TO {OWNER};
CREATE ROLE {RELAY} LOGIN REPLICATION;
GRANT pg_read_all_stats TO {RELAY};
CREATE ROLE {WRITER} LOGIN;
"""

_GRANTS = f"""
GRANT USAGE ON SCHEMA walrelay, walrelay_demo TO {RELAY}, {WRITER};
GRANT SELECT ON walrelay.slots TO {RELAY};
GRANT SELECT, INSERT, UPDATE ON walrelay.dead_letters TO {RELAY};
GRANT INSERT ON walrelay_demo.outbox TO {WRITER};
GRANT SELECT, INSERT, UPDATE ON walrelay_demo.orders TO {WRITER};
"""

_EMIT = "SELECT walrelay.emit('order', %(order)s, %(type)s, %(payload)s, id => %(id)s)"

# What walrelay.emit does. A database of the user's may have one, and it writes to the user's outbox.
_INSERT = """
INSERT INTO walrelay_demo.outbox (aggregate_type, aggregate_id, type, payload, id)
VALUES ('order', %(order)s, %(type)s, %(payload)s, %(id)s)
"""


def make_roles(superuser: str) -> None:
    """On an embedded server, by that DSN."""
    with Catalog(superuser) as catalog:
        catalog.connection.execute(_ROLES.encode())


@contextmanager
def prepared(wiring: Wiring, *, embedded: bool) -> Iterator[str]:
    """Schema and tables of the shop, outbox, publication and slot; yields the statement that writes an event.

    Everything goes afterwards; an embedded server goes as a whole.
    """
    with Catalog(wiring.dsn) as catalog:
        guest.refuse_wrong_wal_level(catalog, "the demo")
        _refuse_another(catalog, wiring.slot)
        guest.remove_leftovers(catalog, wiring, "demo", _SCHEMA, _MARK)
        bookkeeping = guest.has_bookkeeping(catalog)
    try:
        with Catalog(wiring.dsn) as catalog:
            guest.make(catalog, wiring, "the demo", _SHOP, with_emit=embedded, patience=_SLOT_PATIENCE)
            if embedded:
                catalog.connection.execute(_GRANTS.encode())
        yield _EMIT if embedded else _INSERT
    finally:
        if not embedded:
            guest.remove(wiring, _SCHEMA, with_bookkeeping=not bookkeeping)


def greet(dsn: str, emit: str) -> str:
    """Commits an event that nobody counts, and returns its id: when it arrives, everyone is connected."""
    event = str(uuid4())
    greeting = {"id": event, "order": "greeting", "type": "Greeting", "payload": '{"step": 0}'}
    with Catalog(dsn) as catalog:
        catalog.connection.execute(emit.encode(), greeting)
    return event


def _refuse_another(catalog: Catalog, name: str) -> None:
    slot = catalog.slot(name)
    if slot is not None and slot.active_pid is not None:
        raise Fatal(
            f"slot {slot.name!r} is in use by PID {slot.active_pid}: a demo is running on this server",
            hint="Wait until it has ended.",
        )


def relay_failure(relay: Child) -> Fatal:
    """The last error and hint that the relay printed, or the end of its log."""
    for line in reversed(relay.log().splitlines()):
        try:
            event = json.loads(line)
            return Fatal(f"the relay ended: {event['error']}", hint=event["hint"])
        except (ValueError, LookupError, TypeError):
            continue
    return relay.failure("ended")


_INTERVAL = 0.1  # seconds between two looks
_PATIENCE = 15.0  # seconds without an arrival, after which what is missing counts as lost
_LINGER = 0.25  # seconds in which what is on the brokers reaches the consumer


class Watch:
    """Counts in `tally`, shows on `stream`. Fatal when writer, reader or relay fails."""

    def __init__(self, news: News, relay: Child, stream: EventLines, patience: float = _PATIENCE) -> None:
        self.tally = DemoTally()
        self._news, self._relay, self._stream, self._patience = news, relay, stream, patience
        self._greeting = ""
        self._greeted = False
        self._writing = len(COUNTERS)
        self._under_way: dict[str, Change] = {}

    def until_greeted(self, greeting: str) -> None:
        """Until the event of that id has arrived, which is not counted."""
        self._greeting = greeting
        deadline = time.monotonic() + self._patience
        while not self._greeted:
            self._look_after(0.01)
            if time.monotonic() > deadline:
                raise self._relay.failure(f"published nothing within {self._patience:g} s")

    def until_complete(self) -> None:
        """Until every committed event has arrived, or nothing has for too long."""
        arrived, since = -1, time.monotonic()
        while self._writing or self.tally.arrived != self.tally.committed:
            self._look_after(_INTERVAL)
            self._stream.show(self.tally)
            if self.tally.arrived != arrived or self._writing:
                arrived, since = self.tally.arrived, time.monotonic()
            elif time.monotonic() - since > self._patience:
                return

    def linger(self) -> None:
        """For what must not come: repetitions, and events that were never committed. The relay has left."""
        time.sleep(_LINGER)
        self._look()

    def _look_after(self, seconds: float) -> None:
        time.sleep(seconds)
        if not self._relay.running:
            raise relay_failure(self._relay)
        self._look()

    def _look(self) -> None:
        while not self._news.empty():
            self._take(self._news.get())

    def _take(self, item: Item) -> None:
        match item:
            case Delivered(id=event) if event == self._greeting:
                self._greeted = True
            case Delivered(id=event):
                self._matched(event, self.tally.arrive(item))
            case Inserted(id=event, change=change):
                self._under_way[event] = change
                self._matched(event, self.tally.commit(item))
            case RolledBack():
                self.tally.rollback()
            case WriterDone():
                self._writing -= 1
            case Failed(who=who, error=error):
                raise Fatal(f"{who} failed: {error}") from error

    def _matched(self, event: str, latency_ms: float | None) -> None:
        if latency_ms is not None:
            self._stream.event(self._under_way.pop(event), latency_ms)


_SETTINGS = files("walrelay.lab.demo").joinpath("walrelay.yaml")
_SWITCH_INTERVAL = 0.0002  # seconds


class TourRequest(NamedTuple):
    """What was asked for. `rate`: transactions a second, 0 for no limit; no address: a server of the demo's own."""

    events: int
    rate: float
    dsn: str | None
    bootstrap_servers: str | None
    sink: str = "kafka"
    sink_url: str | None = None


def tour(request: TourRequest, screen: DemoScreen, interruption: Interruption) -> Result:
    """However it ends, nothing is left behind: no process, no directory, and nothing on the user's servers."""
    # Writer, reader and screen share an interpreter: while the screen is drawn the reader would wait up to 5 ms for
    # it, which would show as latency of the relay.
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with opened(interruption) as (backstage, stack):
        return _toured(request, screen, backstage, stack)


def _toured(request: TourRequest, screen: DemoScreen, backstage: Backstage, stack: ExitStack) -> Result:
    broker = _broker(request, backstage)
    postgres = OwnPostgres(request.dsn) if request.dsn else EmbeddedPostgres(backstage)
    news: News = SimpleQueue()
    with screen.step(postgres.name):
        dsn = postgres.ready()
    with screen.step(broker.name):
        broker.ready()
        stack.enter_context(broker.topic(TOPIC, screen.note))
        stack.enter_context(ArrivalReader(broker.consumer(TOPIC), news))
    with screen.step("outbox, publication and slot, as [bold]walrelay init[/] makes them"):
        if postgres.embedded:
            make_roles(dsn)
        owner, relays, writers = map(postgres.as_role, (OWNER, RELAY, WRITER))
        environment = {"DATABASE_URL": owner, **broker.environment}
        file = backstage.home / "walrelay.yaml"
        file.write_text(f"{_SETTINGS.read_text(encoding='utf-8')}\nsink: {json.dumps(broker.sink(TOPIC))}\n")
        settings = config.parse(file.read_text(), file.name, environment)
        emit = stack.enter_context(prepared(compose.wiring(settings), embedded=postgres.embedded))
    stream = screen.stream(request.events)
    with screen.step("the relay, as [bold]walrelay run[/], and a first event through it"):
        relay = _relay(backstage, stack, file, {**environment, "DATABASE_URL": relays})
        watch = Watch(news, relay, stream)
        watch.until_greeted(greet(writers, emit))
    with stream, writing(WritingTask(writers, emit, request.events, request.rate), news):
        watch.until_complete()
    if relay.end(signal.SIGTERM) != 0:  # it settles what is under way: after it nothing more can come
        raise relay_failure(relay)
    watch.linger()
    return watch.tally.result()


def _broker(request: TourRequest, backstage: Backstage) -> LabBroker:
    if request.sink != "kafka":
        return own_or_users(request.sink, backstage, request.sink_url)
    from walrelay.lab.brokers.kafka import LabKafka
    from walrelay.lab.servers.kafka import MockKafka, RealKafka

    return LabKafka(RealKafka(request.bootstrap_servers) if request.bootstrap_servers else MockKafka(backstage))


def _relay(backstage: Backstage, stack: ExitStack, settings: Path, environment: Mapping[str, str]) -> Child:
    """In a process of its own, by the command that everybody uses. It leaves before its slot is removed."""
    command = [sys.executable, "-m", "walrelay", "run", "--config", str(settings)]
    relay = backstage.start("the relay", command, environment={**os.environ, **environment})
    stack.callback(relay.end, signal.SIGTERM)
    return relay
