"""Instances of a relay, each in a thread of its own of which only one runs at a time, over a cluster that changes."""

from collections import Counter
from collections.abc import Callable
from random import Random
from threading import Semaphore, Thread
from typing import cast

import pytest

from tests.seen import Seen
from tests.simulation.broker import FakeBroker, FakeSink
from tests.simulation.clock import Clock, put_in_place
from tests.simulation.cluster import SLOT, FakeCatalog, FakeStream, Place, Questions, Server
from tests.simulation.fuse import Fuse, Killed
from walrelay.compose import LiveFactories, wiring
from walrelay.config import Settings
from walrelay.errors import Fatal
from walrelay.postgres.catalog import Catalog
from walrelay.relay.run import Runs
from walrelay.source.contract import Positions
from walrelay.source.slot_source import SlotSource
from walrelay.source.stream import Stream
from walrelay.supervise import Backoff

_PATIENCE = 40_000  # steps: who has not finished by then never will


class Instance(Seen):
    """A process that is started again when it is killed or asked to stop, but not after a Fatal."""

    def __init__(self, cluster: "Cluster") -> None:
        super().__init__()
        self.cluster, self.baton = cluster, Semaphore(0)
        self.fatal: Fatal | None = None
        self.asked_to_stop = self.dying = self.breaking = False
        self.sinks = list[FakeSink]()
        self.connections = list[FakeStream | FakeCatalog]()
        self.thread = Thread(target=self._live, daemon=True)

    def is_set(self) -> bool:
        """Whether to stop."""
        return self.asked_to_stop or self.cluster.over

    def wait(self, seconds: float) -> None:
        """Before another run."""
        self.cluster.wait(seconds)
        self.cluster.step()

    def happens(self) -> None:
        """What was to happen to this process, at a step of its own."""
        if self.dying:
            self.dying = False
            raise Killed
        if self.breaking:
            self.breaking = False
            for connection in self.connections:
                connection.close()

    def _live(self) -> None:
        self.baton.acquire()
        try:
            while not self.cluster.over and self.fatal is None:
                self._process()
        except BaseException as error:  # an assertion: the thread's errors are seen nowhere else
            self.cluster.failures.append(error)
            self.cluster.over = True
        finally:
            self.cluster.ended(self)

    def _process(self) -> None:
        self.asked_to_stop = False
        try:
            factories, clock = _Factories(self), self.cluster.clock
            runs = self.cluster.runs(self.cluster.wiring, factories, self, clock=clock, timer=clock.timer)
            runs.until(self.is_set, self.wait, Backoff())
        except Killed:
            pass
        except Fatal as error:
            self.fatal = error
        finally:
            for gone in (*self.sinks, *self.connections):
                gone.vanish() if isinstance(gone, FakeSink) else gone.close()
            self.sinks.clear()
            self.connections.clear()


class Cluster(Questions):
    """Three servers, the instances, and what happens to them: `actions` are taken at random, `plan` at its steps."""

    runs: type[Runs] = Runs

    def __init__(self, keep: str, *, seed: int = 0, instances: int = 3, quiet: bool = False) -> None:
        self.random, self.clock = Random(seed), Clock()
        self.chance = lambda odds: self.random.random() < odds
        self.wait = self.clock.wait
        self.servers = [Server(name) for name in "abc"]
        self.primary = self.servers[0]
        self.primary.standby = False
        self.broker = FakeBroker(self.random)
        self.wiring = wiring(_settings(keep))
        self.keep = keep
        self.routes = list[Server]()  # of the connections to come; then to the primary
        self.astray = 0.0  # how often a connection ends elsewhere
        self.actions: list[Callable[[], None]] = (
            []
            if quiet
            else [
                *(self.writes, self.writes, self.writes, self.replicates, self.replicates, self.copies_the_slot),
                *(self.crashes, self.fails_over, self.rejoins, self.dies, self.restarts, self.breaks),
            ]
        )
        self.pace = 0.03  # how often something happens at a step
        self.plan: dict[int, Callable[[], None]] = {}
        self.budget = 0 if quiet else 1500
        self.steps, self.over = 0, False
        self.failures = list[BaseException]()
        self._timeline, self._numbers = 1, 0
        self.instances = [Instance(self) for _ in range(instances)]
        self._living, self._current = list(self.instances), self.instances[0]
        self._end = Semaphore(0)

    def run(self) -> None:
        """Until all is published that the primary has, or every instance ended."""
        for instance in self.instances:
            instance.thread.start()
        self._current.baton.release()
        self._end.acquire()
        for error in self.failures:
            raise error

    @property
    def lost(self) -> set[str]:
        return set(self.primary.events) - self.published.keys()

    @property
    def published(self) -> Counter[str]:
        return Counter({value.decode().strip('"'): count for value, count in self.broker.durable.items()})

    @property
    def fatals(self) -> list[str]:
        return [str(instance.fatal) for instance in self.instances if instance.fatal is not None]

    # What a connection asks for.

    def step(self) -> None:
        """Anything may happen, and another instance may go on."""
        self.steps += 1
        assert self.steps < _PATIENCE, f"no instance gets on: {[i.notices[-2:] for i in self.instances]}"
        if action := self.plan.pop(self.steps, None):
            action()
        elif self.steps < self.budget and self.actions and self.chance(self.pace):
            self.random.choice(self.actions)()
        elif self.steps == self.budget:
            self._heals()
        if self.steps > self.budget and not self.plan and not self.over:
            self.over = not self.lost and self.primary.confirmed > self._last_event()
        me = self._current
        other = self.random.choice(self._living)
        if other is not me:
            self._current = other
            other.baton.release()
            me.baton.acquire()
        me.happens()

    def route(self) -> Server:
        if self.routes:
            return self.routes.pop(0)
        up = [server for server in self.servers if server.up]
        return self.random.choice(up) if self.chance(self.astray) else self.primary

    def ended(self, instance: Instance) -> None:
        self._living.remove(instance)
        if self._living:
            self._current = self.random.choice(self._living)
            self._current.baton.release()
        else:
            self._end.release()

    # What happens.

    def writes(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self._numbers += 1
            self.primary.write(f"e{self._numbers}")

    def replicates(self) -> None:
        for standby in self._standbys():
            more = len(self.primary.wal) - len(standby.wal)
            standby.wal = self.primary.wal[: len(standby.wal) + self.random.randint(0, more)]

    def copies_the_slot(self) -> None:
        """PostgreSQL takes over no position that the standby has not reached."""
        for standby in self._standbys():
            if self.primary.confirmed <= standby.end:
                standby.confirmed = standby.checkpointed = self.primary.confirmed

    def crashes(self) -> None:
        self.primary.starts_anew()

    def fails_over(self) -> None:
        """To a standby, while the old primary is down, or a zombie that goes on for itself."""
        if standbys := self._standbys():
            self.promotes(self.random.choice(standbys), zombie=self.chance(0.5))

    def promotes(self, standby: Server, *, zombie: bool, alone: bool = False) -> None:
        """`alone`: no other standby hears of it, and no archive has its number."""
        old, self.primary = self.primary, standby
        if not zombie:
            old.up = False
            old.starts_anew(crashed=False)
        self._timeline += 1
        standby.promote(standby.timeline + 1 if alone else self._timeline, self._timeline)
        for other in self.servers:  # who is ahead of the branch has to be made again
            if not alone and other.standby and len(other.wal) < len(standby.wal):
                other.follow(standby)

    def rejoins(self) -> None:
        for server in self.servers:
            if server is not self.primary and server not in self._standbys():
                server.starts_anew(crashed=False)
                server.standby = False
                server.follow(self.primary)

    def dies(self) -> None:
        self.random.choice(self._living).dying = True

    def restarts(self) -> None:
        self.random.choice(self._living).asked_to_stop = True

    def breaks(self) -> None:
        self.random.choice(self._living).breaking = True

    def _standbys(self) -> list[Server]:
        """Those that follow the primary."""
        return [
            server
            for server in self.servers
            if server.standby and server.up and server.wal == self.primary.wal[: len(server.wal)]
        ]

    def _heals(self) -> None:
        self.astray, self.routes = 0.0, []
        self.rejoins()
        self.writes()

    def _last_event(self) -> int:
        return max((entry.start for entry in self.primary.wal if entry.event), default=0)


def _settings(keep: str) -> Settings:
    return Settings.model_validate(
        {
            "source": {"dsn": "host=cluster", "slot": SLOT},
            "sink": {"kind": "kafka", "bootstrap_servers": "broker:9092"},
            "position": {"keep": keep},
        }
    )


class _Factories(LiveFactories):
    """The product's, but for servers and brokers; the examination finds nothing."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance.cluster.wiring, instance)
        self._instance, self._cluster = instance, instance.cluster

    def stream(self) -> Stream:
        made = FakeStream(self._cluster)
        self._instance.connections.append(made)
        return cast(Stream, made)

    def leads_at_once(self, stream: Stream) -> bool:
        return cast(FakeStream, stream).leads()

    def lead(self, stream: Stream, stop: Callable[[], bool]) -> bool:
        while not self.leads_at_once(stream):
            if stop():
                return False
        return True

    def catalog(self) -> Catalog:
        made = FakeCatalog(self._cluster)
        self._instance.connections.append(made)
        return cast(Catalog, made)

    def examine(self, catalog: Catalog) -> None:
        self._router = self._wiring.router(catalog)

    def sink(self) -> FakeSink:
        sink = self._cluster.broker.connect(Fuse(), self._cluster.clock)
        self._instance.sinks.append(sink)
        return sink

    def positions(self, catalog: Catalog, source: SlotSource) -> Positions | None:
        keep = self._cluster.wiring.position.place
        return None if keep == "slot" else Place(self._cluster, keep, cast(FakeCatalog, catalog), source.pid)


def play(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Runs it to its end, by its own clock."""

    def sleep(seconds: float) -> None:
        cluster.wait(seconds)
        cluster.step()

    with monkeypatch.context() as patch:
        put_in_place(patch, cluster.clock, cluster.random, sleep)
        cluster.run()
    return cluster
