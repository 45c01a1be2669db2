"""Whatever Kafka answers, at whichever request: a documented exit code and a message from every command; no event lost.

One request, or all from there on, is lost, answered with an error, with nonsense or not at all. What PostgreSQL was
told to forget has to be in the topic by then, and whoever runs the command again, with the broker well, has everything
in order; exactly once where that is promised.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

import pytest
import yaml

from tests.integration.cli.signals import replace_signals
from tests.integration.cli.test_commands_meet_faults import Outcome, invoke
from tests.servers.choose import Machine
from tests.servers.database import Database, Postgres
from tests.servers.faulty_kafka import GARBLED, LOST, UNHEARD, BrokerFault, FaultyKafka, faulty_broker
from tests.servers.kafka import KafkaServer
from tests.servers.waiting import wait_until
from walrelay.cli import ending
from walrelay.lsn import LSN, ZERO
from walrelay.supervise import Stop

KINDS: tuple[str | int, ...] = (
    *(LOST, UNHEARD, GARBLED),
    *(-1, 3, 5, 6, 7),  # unknown error, no such topic, no leader, not the leader, timed out
    *(14, 15, 16, 19, 20),  # coordinator loading, not available, not this one; too few replicas, before or after
    *(29, 31, 35, 36, 44),  # topic or cluster not allowed, unsupported version, topic exists, policy
    *(45, 47, 48, 51, 53),  # out of sequence, epoch, state; concurrent transactions; transactional id not allowed
    *(56, 59, 67, 72, 87, 90, 120),  # disk, producer id, no replica id, no such listener, record, fenced, abort it
)

AT_LEAST_ONCE: dict[str, Any] = {}
KEPT: dict[str, Any] = {"position": {"keep": "topic"}}
EXACTLY_ONCE: dict[str, Any] = {"delivery": "exactly_once"}

_CODES = {ending.DONE, ending.FAILED, ending.USAGE}
_PATIENCE = 8.0  # seconds after which a command that goes on trying gets its signal
_EVENT = "SELECT walrelay.emit('order', '42', 'Placed', jsonb_build_object('n', %s::int, 'x', repeat('x', 2000)))"
_END = "SELECT pg_current_wal_insert_lsn()::text"
_CONFIRMED = "SELECT coalesce(confirmed_flush_lsn, '0/0')::text FROM pg_replication_slots WHERE slot_name = %s"
_ADVANCE = "SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())"
_GOES_ON = "UPDATE walrelay.relays SET state = 'not started', ended_at = NULL WHERE slot_name = %s"
_IMPATIENT = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "topic.metadata.propagation.max.ms": 500,
    "topic.metadata.refresh.fast.interval.ms": 50,
}


class Command(NamedTuple):
    words: str
    way: dict[str, Any] = AT_LEAST_ONCE
    fault: BrokerFault = BrokerFault(0)
    """What it meets in the short test; nothing: it is for the long one."""
    relayed: bool = False
    """Whether a relay has read the events before."""
    slot: bool = True
    """Whether it has a slot before."""
    again: str = ""
    """What is run afterwards in any case, to have everything in the topic; else the command is, if it failed."""

    @property
    def name(self) -> str:
        return f"{self.words} {self.way}" if self.way else self.words


COMMANDS = (
    Command("run", AT_LEAST_ONCE, BrokerFault(6, UNHEARD), again="run"),
    Command("run", KEPT, BrokerFault(9, 15), again="run"),
    Command("run", EXACTLY_ONCE, BrokerFault(14, 7), again="run"),
    Command("init", EXACTLY_ONCE, BrokerFault(3, GARBLED), slot=False, again="run"),
    Command("init --backfill", AT_LEAST_ONCE, BrokerFault(5, LOST), slot=False),
    Command("init --backfill", EXACTLY_ONCE, slot=False),
    Command("init --backfill --where true", slot=False),
    Command("doctor", AT_LEAST_ONCE, BrokerFault(4, -1), again="run"),
    Command("doctor", EXACTLY_ONCE, again="run"),
    Command("replay --all", AT_LEAST_ONCE, BrokerFault(4, LOST), relayed=True),
    Command("replay --all", EXACTLY_ONCE, relayed=True),
    Command("audit", AT_LEAST_ONCE, BrokerFault(6, 29), relayed=True),
    Command("audit", EXACTLY_ONCE, relayed=True),
    Command("find --since 1h --seconds 10", AT_LEAST_ONCE, BrokerFault(6, 29), relayed=True),
    Command("compare --old {topic} --new {topic} --wait 0.1", AT_LEAST_ONCE, BrokerFault(6, 29), relayed=True),
    Command("compare --marked true --wait 0.1", relayed=True),
    Command("recover --dry-run --replace", again="run"),
    Command("recover --yes --replace", AT_LEAST_ONCE, BrokerFault(7, 6)),
    Command("recover --yes --replace --all", EXACTLY_ONCE),
    Command("dlq replay", AT_LEAST_ONCE, BrokerFault(4, 19), relayed=True),
)


class World:
    """A database and a broker, which is reached by way of the faults, or straight."""

    def __init__(self, database: Database, kafka: KafkaServer, faulty: FaultyKafka, directory: Path) -> None:
        self.database, self.kafka, self.faulty = database, kafka, faulty
        self._straight, self._through = directory / "straight.yaml", directory / "through.yaml"
        self._numbers = count()
        self.slot = self.topic = ""
        self.met = 0
        """How many requests the last run with a fault made."""
        self.ids: list[str] = []
        self.ends: list[LSN] = []

    def prepare(self, command: Command) -> None:
        """As `walrelay init` leaves it, with three events, unless it is init that is to be tried; slot and topic are
        such that no check had before.
        """
        self.database.empty()
        self.slot = f"broker_faults_{os.getpid()}_{next(self._numbers)}"
        self.topic = self.kafka.create_topic(self.slot)
        self._write(self._through, command, self.kafka.bootstrap_servers)
        if command.words == "dlq replay":
            self._write(self._straight, command, self.kafka.address_for_tests, **{"message.max.bytes": 1000})
        else:
            self._write(self._straight, command, self.kafka.address_for_tests)
        self.straight("init")
        self.ids, self.ends = [], []
        if command.words != "init":
            self.write_events()
        if command.relayed:
            self.straight("run")
            assert self.confirmed_all()
            self.confirm()
        if not command.slot:
            self.straight("drop --yes")
        self._write(self._straight, command, self.kafka.address_for_tests)

    def write_events(self) -> None:
        for number in range(3):
            self.ids += [str(id_) for (id_,) in self.database.execute(_EVENT, [number])]
            self.ends += [LSN.parse(lsn) for (lsn,) in self.database.execute(_END)]

    def run(self, command: Command, fault: BrokerFault) -> Outcome:
        self.faulty.arm(fault)
        done = invoke(*command.words.format(topic=self.topic).split(), config=self._through)
        self.met = self.faulty.calls
        self.faulty.heal()
        return done

    def straight(self, words: str) -> None:
        done = invoke(*words.split(), config=self._straight)
        assert done.code == 0, (words, done)

    def again(self, command: Command, done: Outcome) -> None:
        """The operator, with the broker well. The server may write between the confirmation and the look at it."""
        from_slot = " --from-slot" if "start it with --from-slot" in done.err else ""
        words = (
            f"{command.again or command.words.format(topic=self.topic)}{from_slot if command.again == 'run' else ''}"
        )

        def succeeds() -> bool:
            self.confirm()
            return invoke(*words.split(), config=self._straight).code == 0

        if command.relayed:
            wait_until(succeeds, 30, f"{words} to succeed")
        else:
            self.straight(words)

    def confirm(self) -> None:
        """As the relay does that nobody runs here: everything up to now, and its report is taken back before."""
        self.database.execute(_GOES_ON, [self.slot])
        self.database.execute(_ADVANCE, [self.slot])

    def confirmed_all(self) -> bool:
        return bool(self.ends) and self._confirmed() >= self.ends[-1]

    def lost(self) -> list[str]:
        """The events that PostgreSQL was told to forget, or that are no dead letters any more, without being there."""
        there, confirmed = set(self.delivered()), self._confirmed()
        kept = dict(self.database.execute("SELECT record_id, status FROM walrelay.dead_letters"))
        return [
            id_
            for id_, end in zip(self.ids, self.ends, strict=True)
            if id_ not in there and (kept[id_] != "waiting" if id_ in kept else end <= confirmed)
        ]

    def delivered(self) -> list[str]:
        """The ids of the messages in the topic, in its order."""
        return [(dict(message.headers)["id"] or b"").decode() for message in self.kafka.read_all(self.topic)]

    def _write(self, path: Path, command: Command, address: str, **options: int) -> None:
        settings = {
            "source": {"dsn": self.database.dsn, "slot": self.slot, "confirm_interval": 0.1},
            "outbox": {"max_message_bytes": 2**20},
            "route": {"topic": self.topic},
            "sink": {"kind": "kafka", "bootstrap_servers": address, "options": {**_IMPATIENT, **options}},
            "retry": {"min_pause": 0.01, "max_pause": 0.1},
            "refusals": {"policy": "dead_letter" if command.words == "dlq replay" else "stop"},
            "shutdown_timeout": 2,
        }
        path.write_text(yaml.safe_dump({**settings, **command.way}))

    def _confirmed(self) -> LSN:
        rows = self.database.execute(_CONFIRMED, [self.slot])
        return LSN.parse(rows[0][0]) if rows else ZERO


@pytest.fixture(scope="module")
def world(postgres: Postgres, machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    database = postgres.create_database()
    with faulty_broker(machine) as (kafka, faulty):
        yield World(database, kafka, faulty, tmp_path_factory.mktemp("faults"))
    database.drop()


@pytest.fixture(autouse=True)
def _no_slot_is_left(world: World) -> Iterator[None]:
    yield
    world.database.drop_slots()


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch, world: World) -> Iterator[None]:
    """What goes on until a signal gets it after a while; a relay as soon as all is confirmed."""
    over = Event()

    def in_time(leaving: Callable[[], None] = lambda: None, *, done: Callable[[], bool] = over.is_set) -> Stop:
        stop = Stop()

        def look() -> None:
            deadline = monotonic() + _PATIENCE
            while not (over.wait(0.05) or done() or monotonic() > deadline):
                pass
            stop.set()

        Thread(target=look, daemon=True).start()
        return stop

    relaying = partial(in_time, done=world.confirmed_all)
    replace_signals(monkeypatch, lambda module: relaying if module.endswith(".run") else in_time)
    for name in ("replay.plan", "audit.run"):
        monkeypatch.setattr(import_module(f"walrelay.operations.{name}"), "_PATIENCE", 0.1)
    yield
    over.set()


def check(world: World, command: Command, fault: BrokerFault) -> None:
    world.prepare(command)
    done = world.run(command, fault)
    told = f"{command.name} with {fault}: {done}, after the requests {world.faulty.apis[:100]}"
    assert done.code in _CODES, told
    assert "Traceback" not in done.err, told
    assert "this is a bug in walrelay" not in done.err, told
    assert done.code == ending.DONE or done.err or command.words == "doctor", told
    if done.code == ending.DONE or not command.words.startswith(("init", "recover")):
        assert world.lost() == [], told  # a backfill that is not over is still to publish what is before its slot
    if command.words == "init":
        world.write_events()
    if command.again or done.code != ending.DONE:
        world.again(command, done)
        assert world.lost() == [], told
    delivered = world.delivered()
    exactly = command.way == EXACTLY_ONCE and "run" in (command.words, command.again)
    assert (delivered if exactly else [*dict.fromkeys(delivered)]) == world.ids, told


SHORT = [command for command in COMMANDS if command.fault.call]


@pytest.mark.parametrize("command", SHORT, ids=lambda command: command.name)
def test_a_fault_at_a_request_loses_nothing_and_ends_a_command_as_documented(world: World, command: Command) -> None:
    def met() -> bool:
        check(world, command, command.fault)
        return world.met >= command.fault.call

    wait_until(met, 100, "the request that meets the fault")


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_faults_at_random_requests_lose_nothing_and_end_a_command_as_documented(
    world: World, command: Command, seed: int
) -> None:
    world.prepare(command)
    done = world.run(command, BrokerFault(0))
    assert done.code == ending.DONE, done
    total, random = world.faulty.calls, Random(f"{command.name} {seed}")
    for _ in range(8):
        fault = BrokerFault(random.randint(1, total), random.choice(KINDS), lasting=random.random() < 0.3)
        check(world, command, fault)
