"""Whatever PostgreSQL answers, at whichever statement: a message and a documented exit code from every command.

A clean run of each command counts its statements; then one of them is refused with some SQLSTATE, or the connection is
reset there. The error that nobody foresaw, which the command line would report as a bug, must not occur.
"""

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest
import yaml
from psycopg.conninfo import make_conninfo

from tests.integration.cli.signals import replace_signals
from tests.servers.database import Database, Postgres
from tests.servers.faults import Fault, FaultyPostgres
from tests.servers.ports import LOOPBACK
from walrelay.cli import ending, main
from walrelay.sinks import memory
from walrelay.supervise import Stop

KINDS = ("", "42501", "XX000", "53100", "57014", "57P01", "40001", "25006")
"""Reset; no privilege, internal error, disk full, canceled, shutting down, serialization failure, read-only."""

COMMANDS = (
    ("doctor", "--json"),
    ("status", "--json"),
    ("init",),
    ("init", "--backfill"),
    ("init", "--backfill", "--where", "type = 'Placed'"),
    ("init", "--push-down"),
    ("init", "--adopt", "outbox"),
    ("run",),
    ("tail",),
    ("tail", "--follow"),
    ("tail", "--format", "wal2json"),
    ("cleanup", "--older-than", "1s", "--timeout", "0.1", "--dry-run"),
    ("cleanup", "--older-than", "1s", "--timeout", "0.1", "--pace", "1"),
    ("replay", "--all", "--dry-run"),
    ("replay", "--all"),
    ("replay", "--list"),
    ("audit",),
    ("find", "--since", "1h", "--json"),
    ("compare", "--marked", "type = 'Placed'", "--marked-at", "created_at", "--wait", "0.1"),
    ("route", "test", "--rows", "5"),
    ("route", "test", "--slot", "5"),
    ("recover", "--dry-run"),
    ("recover", "--yes", "--replace", "--all"),
    ("dlq", "list"),
    ("dlq", "show", "1"),
    ("dlq", "export"),
    ("dlq", "edit", "1", "--take-back", "--yes"),
    ("dlq", "discard", "--reason", "test", "--yes"),
    ("dlq", "replay", "--dry-run"),
    ("dlq", "replay"),
    ("skip", "--position", "0/1", "--yes"),
    ("migrate", "offset", str(Path(__file__).with_name("offsets.json"))),
    ("relays", "--json"),
    ("events",),
    ("events", "--follow"),
    ("top", "--once", "--interval", "0.5"),
    ("pause", "--limit", "1GB"),
    ("resume",),
    ("restart",),
    ("drain", "--timeout", "0.1"),
    ("drop", "--yes"),
)

_CODES = {ending.DONE, ending.FAILED, ending.USAGE}


class _NoMessages:
    """A topic stream that is over."""

    over = True

    def next(self, timeout: float) -> None:
        return None


class Outcome(NamedTuple):
    code: object
    out: str
    err: str


class World:
    """A database with a slot, rows and a dead letter, reached by way of the faults, or straight."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.faulty = FaultyPostgres((LOOPBACK, database.server.port))
        self._straight, self._through = directory / "straight.yaml", directory / "through.yaml"
        for path, port in ((self._straight, database.server.port), (self._through, self.faulty.port)):
            source = {"dsn": make_conninfo(database.dsn, host=LOOPBACK, port=port), "slot": f"faults_{os.getpid()}"}
            retry = {"min_pause": 0.01, "max_pause": 0.05}
            refusals = {"policy": "dead_letter"}
            settings = {"source": source, "sink": {"kind": "memory"}, "retry": retry, "refusals": refusals}
            path.write_text(yaml.safe_dump(settings))
        self._with_rules = directory / "rules.yaml"
        noise = {"name": "noise", "when": {"type": "Noise"}, "drop": True}
        self._with_rules.write_text(yaml.safe_dump({**settings, "routes": [noise, {"name": "rest"}]}))

    def prepare(self, command: Sequence[str]) -> None:
        """As `walrelay init` leaves it, with a row; a backfill makes the slot itself."""
        done = invoke("drop", "--yes", config=self._straight)
        assert done.code in (0, 1), done
        if command[:2] != ("init", "--backfill"):
            done = invoke("init", config=self._straight)
            assert done.code == 0, done
            self.database.execute("SELECT walrelay.emit('order', '42', 'Placed', '{}')")

    def run(self, command: Sequence[str], fault: Fault) -> Outcome:
        self.faulty.arm(fault)
        return invoke(*command, config=self._with_rules if "--push-down" in command else self._through)


def invoke(*command: str, config: Path) -> Outcome:
    out, err = io.TextIOWrapper(io.FileIO(os.memfd_create("out"), "r+")), io.StringIO()
    code: object = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([*command, "-c", str(config)])
        except SystemExit as end:
            code = end.code
    out.flush()
    out.seek(0)
    return Outcome(code, out.read(), err.getvalue())


@pytest.fixture(scope="module")
def world(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    database = postgres.create_database()
    world = World(database, tmp_path_factory.mktemp("faults"))
    yield world
    world.faulty.close()
    database.drop()


@pytest.fixture(autouse=True)
def _no_slot_is_left(world: World) -> Iterator[None]:
    yield
    world.database.drop_slots()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is waited for that a test need not wait for, and what runs until a signal gets one."""
    timers: list[Timer] = []

    def soon(leaving: Callable[[], None] = lambda: None, *, seconds: float = 0.6) -> Stop:
        stop = Stop()
        timers.append(Timer(seconds, stop.set))
        timers[-1].start()
        return stop

    late = partial(soon, seconds=5)  # for what would try for ever while a fault lasts

    replace_signals(monkeypatch, lambda module: soon if module.endswith((".run", ".tail")) else late)
    for name in ("replay.plan", "audit.run"):
        monkeypatch.setattr(import_module(f"walrelay.operations.{name}"), "_PATIENCE", 0.1)
    yield
    for timer in timers:
        timer.cancel()


@pytest.fixture(autouse=True)
def _readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory sink has topics, which are empty: so commands that read topics get to their statements."""
    readable = memory.plugin._replace(
        read_back=lambda settings, topics, since_ms: iter(()),
        topic_stream=lambda settings, topics, since_ms: nullcontext(_NoMessages()),
    )
    monkeypatch.setattr(memory, "plugin", readable)


def check(world: World, command: tuple[str, ...], fault: Fault) -> None:
    world.prepare(command)
    done = world.run(command, fault)
    told = f"{' '.join(command)} with {fault}: {done}"
    assert done.code in _CODES, told
    assert "Traceback" not in done.err, told
    assert "this is a bug in walrelay" not in done.err, told
    assert done.code == ending.DONE or done.err or command[0] == "doctor", told


def statements(world: World, command: tuple[str, ...]) -> int:
    world.prepare(command)
    world.run(command, Fault(0))
    return world.faulty.calls


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_fault_at_some_statements_ends_a_command_as_documented(world: World, command: tuple[str, ...]) -> None:
    count = statements(world, command)
    assert count, "it asked PostgreSQL nothing"
    for number, kind in enumerate(KINDS[:3]):
        check(world, command, Fault(1 + number * count // 3, kind))


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_fault_at_any_statement_ends_a_command_as_documented(
    world: World, command: tuple[str, ...], lasting: bool
) -> None:
    for call in range(1, statements(world, command) + 1):
        check(world, command, Fault(call, KINDS[(call + 3 * lasting) % len(KINDS)], lasting))
