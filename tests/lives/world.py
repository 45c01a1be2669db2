"""A life on real things: a PostgreSQL, relays as processes, the commands of an operator, and endpoints with faults."""

import json
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import psycopg
import yaml

from tests.lives.commands import Command, Commands
from tests.lives.life import Life, Row, Rules, Step
from tests.lives.model import OPEN, Letter, Model
from tests.lives.receiver import Receiver
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer

_LIVENESS = 45.0  # seconds from the last fault until all is delivered
_STOPS = 12.0  # seconds for a relay to stop


class World:
    """Servers and endpoints that lives share, one after the other."""

    def __init__(self, server: PostgresServer, commands: Commands, receiver: Receiver, directory: Path) -> None:
        self.server, self.commands, self.receiver, self.directory = server, commands, receiver, directory

    def live(self, life: Life) -> list[str]:
        """Faults that were found; empty if there are none."""
        self.server.start()
        self.receiver.begin()
        home = self.directory / "life"
        home.mkdir()
        database = self.server.create_database()
        try:
            return Living(self, life, database, home).live()
        finally:
            self.commands.forget()
            self.server.start()
            database.drop()
            shutil.rmtree(home)


class Living:
    """One life."""

    def __init__(self, world: World, life: Life, database: Database, home: Path) -> None:
        self._world, self._life, self._database, self._home = world, life, database, home
        self._receiver, self._commands = world.receiver, world.commands
        self._slot, self._file = f"life_{uuid4().hex[:12]}", home / "walrelay.yaml"
        self._rules = life.versions[0]
        self._model = Model()
        self._relays: list[Command] = []
        self._stopping: set[int] = set()
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._wrong: list[str] = []

    def live(self) -> list[str]:
        self._write_settings(self._rules)
        self._model.comes_in_force(self._rules, 0)
        made = self._run("init")
        if made.status != 0:
            return [f"init ended with {made.status}: {made.output[-500:]}"]
        for number, step in enumerate(self._life.steps):
            self._do(step)
            sleep(step.after)
            self._ended_alone()
            if self._wrong:
                return [f"at step {number}, {step}: {each}" for each in self._wrong]
        self._settle()
        return [f"in the end: {each}" for each in self._wrong]

    # What happens

    def _do(self, step: Step) -> None:
        match step.what:
            case "write":
                self._write(step.about, step.rows)
            case "start":
                self._start(1)
            case "second":
                self._start(2)
                self._model.excused(step.what)
            case "stop":
                self._stop_all()
            case "kill":
                self._kill_all()
            case "freeze":
                self._freeze()
            case "settings":
                number, _, how = step.about.split()
                self._change(self._life.versions[int(number)], how)
            case "fault":
                sink, fault = step.about.split()
                self._receiver.fault(sink, fault)
                self._model.excused(fault)
            case "well":
                self._receiver.fault(step.about, "")
            case "cure":
                self._receiver.poisoned.discard(step.about)
            case "crash" | "restart server":
                self._model.excused(step.what)
                self._world.server.restart("immediate" if step.what == "crash" else "fast")
            case "cut":
                self._model.excused(step.what)
                self._sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ^@ 'walrelay'"
                          " AND datname = current_database()")  # fmt: skip
            case "pause" | "resume":
                self._run(step.what, seconds=12)
            case "restart" | "drain":
                self._model.excused(step.what)
                self._run(step.what, "--timeout", "3", seconds=12)
            case "dlq replay":
                self._run("dlq", "replay", seconds=4)
            case "dlq discard":
                self._run("dlq", "discard", "--status", "waiting", "--reason", "a life", "--yes")
            case "cleanup":
                self._clean_up()
            case "replay":
                self._model.replayed = True
                self._run("replay", "--all", seconds=4)
            case "settle":
                self._await_confirmed(3)
            case "look":
                self._look()

    def _write(self, shape: str, rows: tuple[Row, ...]) -> None:
        """Numbers rise in the order of commits."""
        first, self._next = self._next, self._next + len(rows)
        half, rest = rows[::2], rows[1::2]
        with self._database.connect(autocommit=False) as one, self._database.connect(autocommit=False) as other:
            match shape:
                case "rolled back":
                    self._insert(one, rows, first)
                    one.rollback()
                case "savepoint":
                    self._insert(one, half, first)
                    with suppress(ZeroDivisionError), one.transaction():
                        self._insert(one, rest, first + len(half))
                        raise ZeroDivisionError
                    self._commit(one, half, first)
                case "interleaved":
                    later = first + len(rest)
                    self._insert(one, half[:1], later)
                    self._insert(other, rest, first)
                    self._commit(other, rest, first)
                    self._insert(one, half[1:], later + 1)
                    self._commit(one, half, later)
                case "one":
                    self._insert(one, rows, first)
                    self._commit(one, rows, first)
                case _:
                    for number, row in enumerate(rows, first):
                        self._insert(one, (row,), number)
                        self._commit(one, (row,), number)

    def _insert(self, connection: psycopg.Connection[Any], rows: tuple[Row, ...], first: int) -> None:
        for number, row in enumerate(rows, first):
            payload = json.dumps({"n": number, "poison": row.poison})
            ((id_,),) = connection.execute(
                "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload, created_at)"
                " VALUES ('thing', %s, %s, %s, now() - interval '1 day') RETURNING id::text",
                [row.key, row.type, payload],
            )
            self._numbers[id_] = number

    def _commit(self, connection: psycopg.Connection[Any], rows: tuple[Row, ...], first: int) -> None:
        connection.commit()
        ((lsn,),) = connection.execute("SELECT pg_current_wal_flush_lsn() - '0/0'").fetchall()
        connection.commit()
        for number, row in enumerate(rows, first):
            self._model.committed(number, row, int(lsn))

    def _start(self, instances: int) -> None:
        self._relays = [each for each in self._relays if each.running]
        while len(self._relays) < instances:
            self._relays.append(self._commands.start("run", "-c", str(self._file)))

    def _stop_all(self) -> None:
        for each in self._relays:
            assert each.pid is not None
            self._stopping.add(each.pid)
            each.send(signal.SIGCONT)
            each.send(signal.SIGTERM)
        for each in self._relays:
            if each.wait(_STOPS) is None:
                self._wrong.append(f"a relay did not stop within {_STOPS:g} s: {each.output[-800:]}")
                each.kill()
        self._relays.clear()

    def _kill_all(self) -> None:
        self._model.excused("kill")
        for each in self._relays:
            each.kill()
        self._relays.clear()

    def _freeze(self) -> None:
        """A moment in which the leader does nothing."""
        if self._relays:
            self._model.excused("freeze")
            self._relays[0].send(signal.SIGSTOP)
            sleep(0.3)
            self._relays[0].send(signal.SIGCONT)

    def _change(self, rules: Rules, how: str) -> None:
        if how == "kill":
            self._kill_all()
        else:
            self._stop_all()
        self._rules = rules
        self._write_settings(rules)
        self._model.comes_in_force(rules, self._confirmed())
        self._start(1)

    def _clean_up(self) -> None:
        self._run("cleanup", "--older-than", "1s", "--pace", "1", "--timeout", "1")
        there = {id_ for (id_,) in self._sql("SELECT id::text FROM outbox")}
        gone = {n for id_, n in self._numbers.items() if id_ not in there and n in self._model.rows}
        wrong = self._model.lost(gone, self._receiver.journal, self._letters())
        self._wrong += [f"the clean-up deleted what was not published: {each}" for each in wrong]

    def _look(self) -> None:
        """Compares what `status` says, where it can be only one thing."""
        found = self._json("status")
        state, alive = found.get("state"), any(each.running for each in self._relays)
        if not alive and state in ("streaming", "waiting"):
            self._wrong.append(f"status says {state!r} and no relay runs")

    # What is asked

    def _confirmed(self) -> int:
        rows = self._sql(
            "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s", [self._slot]
        )
        return int(rows[0][0]) if rows and rows[0][0] is not None else 0

    def _await_confirmed(self, seconds: float) -> bool:
        target = max((each.lsn for each in self._model.rows.values()), default=0)
        end = monotonic() + seconds
        while (reached := self._confirmed()) < target and monotonic() < end:
            sleep(0.02)
            self._ended_alone()
            if self._wrong:
                return False
        self._model.confirmed(reached)
        return reached >= target

    def _letters(self) -> list[Letter]:
        rows = self._sql(
            "SELECT record_id, sink, topic, status FROM walrelay.dead_letters WHERE slot_name = %s", [self._slot]
        )
        return [
            Letter(self._numbers[id_], None if topic is None else _place(sink, topic), status)
            for id_, sink, topic, status in rows
        ]

    def _sql(self, query: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        with self._database.connect() as connection:
            cursor = connection.execute(query.encode(), parameters)
            return cursor.fetchall()

    def _json(self, *words: str) -> dict[str, Any]:
        done = self._run(*words, "--json")
        with suppress(ValueError):
            found: dict[str, Any] = json.loads(done.output)
            return found
        return {}

    def _run(self, *words: str, seconds: float = 20) -> Command:
        done = self._commands.run(*words, "-c", str(self._file), seconds=seconds)
        if "Traceback" in done.output:
            self._wrong.append(f"{' '.join(words)} ended in a traceback: {done.output[-1500:]}")
        return done

    def _ended_alone(self) -> None:
        """A stop that was not needed is an outage."""
        for each in self._relays:
            if not each.running and each.pid not in self._stopping:
                self._relays = [other for other in self._relays if other is not each]
                poison = any(written.row.poison for written in self._model.rows.values())
                refused = self._rules.policy == "stop" and poison and "was refused" in each.output
                if each.status != 1 or not refused:
                    self._wrong.append(f"a relay ended with {each.status}: {each.output[-1200:]}")

    def _write_settings(self, rules: Rules) -> None:
        settings = rules.settings(self._database.dsn, self._slot, self._receiver.port, str(self._home))
        self._file.write_text(yaml.safe_dump(settings))

    # The end

    def _settle(self) -> None:
        for sink in ("a", "b"):
            self._receiver.fault(sink, "")
            self._receiver.poisoned.discard(sink)
        self._run("resume", seconds=12)
        if self._rules.policy == "stop":
            self._stop_all()  # one may just be ending because of a message that is taken from now on
        self._start(1)
        if not self._await_confirmed(_LIVENESS):
            tail = [each.output[-1500:] for each in self._relays]
            self._wrong.append(f"not all was confirmed within {_LIVENESS:g} s: {self._json('status')} {tail}")
            return
        for _ in range(3):
            if not any(letter.status in OPEN for letter in self._letters()):
                break
            self._run("dlq", "replay")
        self._stop_all()
        self._wrong += self._model.faults(self._receiver.journal, self._letters(), settled=True)


def _place(sink: str, topic: str) -> tuple[str, str]:
    """With several sinks the topic may name the sink as well."""
    named, colon, rest = topic.partition(":")
    return (named, rest) if colon else (sink, topic)
