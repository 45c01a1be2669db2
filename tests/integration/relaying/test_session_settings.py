"""Settings of the relay's role: none changes what the relay does, whatever its value is."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple

import psycopg
import pytest
import yaml
from click.testing import CliRunner, Result
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.conftest import PostgresMaker
from tests.integration.relaying.harness import Outbox
from tests.seen import Seen
from tests.servers import choose
from tests.servers.choose import Machine
from tests.servers.database import Database
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.cli import main
from walrelay.config import Settings
from walrelay.supervise import Stop

_MAJORS = (14, 15, 16, 17, 18)
_LARGE = 3000

_TEXTS = {
    "DateStyle": ("German, MDY", "SQL, DMY"),
    "TimeZone": ("America/St_Johns",),
    "search_path": ("nowhere",),
    "client_encoding": ("LATIN1",),
    "default_tablespace": ("",),
    "temp_tablespaces": ("",),
    "lc_messages": ("C",),
    "plpgsql.extra_errors": ("all",),
    "plpgsql.extra_warnings": ("all",),
    "restrict_nonsystem_relation_kind": ("view, foreign-table",),
    "createrole_self_grant": ("set, inherit",),
    "application_name": ("",),
}
"""Values of settings that are texts, and have no extremes."""


_FEW = {"wal_sender_timeout": "10000"}
"""The doctor warns of less: a machine that is busy for so long loses its stream, and gets it again."""

_ABOUT_THE_ROLE = ("wal_sender_timeout",)
"""Subjects of the doctor about a setting that is left to the role."""


class Value(NamedTuple):
    """A setting of the role."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value or 'nothing'}"


def extremes(server: PostgresServer) -> list[list[Value]]:
    """Of each setting that a role may have, the values at the ends of its range that the server accepts."""
    found = list[list[Value]]()
    with closing(psycopg.connect(server.dsn, autocommit=True)) as session:
        session.execute("DO $$ BEGIN END $$")  # from now on those of PL/pgSQL are there
        rows = session.execute(
            "SELECT name, vartype, min_val, max_val, enumvals, unit FROM pg_settings"
            " WHERE context IN ('user', 'superuser') ORDER BY name"
        ).fetchall()
        for name, kind, least, most, words, unit in rows:
            match kind:
                case "bool":
                    values: tuple[str, ...] = ("off", "on")
                case "enum":
                    values = tuple(words)
                case "integer" | "real":
                    # 0 mostly means "none". Shorter limits end a session before it has sent its first statement.
                    few = _FEW.get(name, "1000" if unit == "ms" else "1")
                    values = (least, few, most) if kind == "integer" and float(least) <= 0 else (least, most)
                case _:
                    values = _TEXTS.get(name, ())
            accepted = [each for each in values if _accepts(session, name, each)]
            found.append([Value(name, each) for each in accepted])
    return [values for values in found if values]


def _accepts(session: psycopg.Connection[Any], name: str, value: str) -> bool:
    try:
        with session.transaction(force_rollback=True):
            session.execute(_set("postgres", Value(name, value)))
    except psycopg.Error:
        return False
    return True


def _set(role: str, each: Value) -> sql.Composed:
    words = [word.strip() for word in each.value.split(",")] if each.name in ("DateStyle",) else [each.value]
    return sql.SQL("ALTER ROLE {} SET {} = {}").format(
        sql.Identifier(role), sql.SQL(each.name), sql.SQL(", ").join(sql.Literal(word) for word in words)
    )


class Life:
    """A database whose owner, no superuser, relays into a file."""

    def __init__(self, server: PostgresServer, directory: Path) -> None:
        self.database: Database = server.create_database()
        self.role = f"relay_{self.database.name}"
        self.database.execute(f"CREATE ROLE {self.role} LOGIN REPLICATION")
        self.database.execute(f"ALTER DATABASE {self.database.name} OWNER TO {self.role}")
        self._directory, self._events = directory, directory / "events.jsonl"
        self._settings = {
            "source": {"dsn": make_conninfo(self.database.dsn, user=self.role), "slot": self.database.name},
            "sink": {"kind": "file", "path": str(self._events)},
            "route": {"topic": "{type}"},
            "position": {"keep": "table"},
            "refusals": {"policy": "dead_letter"},
            "retry": {"min_pause": 0.02, "max_pause": 0.2},
        }
        another = {"kind": "file", "path": str(directory / "again.jsonl")}  # the relay has the other file
        for name, settings in (("walrelay", self._settings), ("replay", {**self._settings, "sink": another})):
            (directory / f"{name}.yaml").write_text(yaml.safe_dump(settings))
        assert self.walrelay("init").exit_code == 0
        self._complaints = self._complain()
        self.database.execute("ALTER TABLE outbox ALTER type DROP NOT NULL")
        self.count = 0

    def close(self) -> None:
        self.database.drop()
        self.database.server.execute(f"DROP ROLE {self.role}")

    def walrelay(self, *command: str, file: str = "walrelay") -> Result:
        return CliRunner().invoke(main, [*command, "--config", str(self._directory / f"{file}.yaml")])

    def has(self, values: list[Value]) -> None:
        self.database.execute(f"ALTER ROLE {self.role} RESET ALL")
        with self.database.connect() as session:
            for each in values:
                session.execute(_set(self.role, each))

    def live(self) -> None:
        """Relays rows, a large transaction and a dead letter, pauses, goes on, and replays a row."""
        assert self._complain() <= self._complaints
        stop, seen, errors = Stop(), Seen(), list[BaseException]()

        def run() -> None:
            try:
                compose.relay_until(stop, compose.wiring(Settings.model_validate(self._settings)), seen)
            except BaseException as error:
                errors.append(error)

        thread = Thread(target=run, daemon=True)
        thread.start()
        try:
            self._events_of(1, errors)
            self._events_of(_LARGE, errors)
            letters = self._letters()
            self._write("NULL", 1)  # no topic
            wait_until(lambda: errors or self._letters() == letters + 1, 30, "the dead letter")
            paused = self.walrelay("pause")
            assert paused.exit_code == 0, paused.output
            wait_until(lambda: errors or self._state() == "paused", 30, "the pause")
            self._write("'placed'", 1)
            assert self.walrelay("resume").exit_code == 0
            self.count += 1
            self._wait_for_events(errors)
            assert not errors, errors
            ((some,),) = self.database.execute("SELECT id::text FROM outbox WHERE type = 'placed' LIMIT 1")
            replayed = self.walrelay("replay", "--id", str(some), file="replay")
            assert replayed.exit_code == 0, replayed.output
            assert not seen.retries, seen.retries
        finally:
            stop.set()
            thread.join(60)
        assert not errors, errors

    def _complain(self) -> set[tuple[str, str]]:
        """Subjects and details of what the doctor does not find good."""
        findings = json.loads(self.walrelay("doctor", "--json").stdout)["findings"]
        told = [each for each in findings if each["verdict"] != "ok" and each["subject"] not in _ABOUT_THE_ROLE]
        return {(each["subject"], each["detail"]) for each in told}

    def _events_of(self, rows: int, errors: list[BaseException]) -> None:
        self._write("'placed'", rows)
        self.count += rows
        self._wait_for_events(errors)

    def _write(self, kind: str, rows: int) -> None:
        self.database.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)"
            f" SELECT 'order', n::text, {kind}, to_jsonb(n + {self.count})"
            f" FROM generate_series(1, {rows}) AS n"
        )

    def _wait_for_events(self, errors: list[BaseException]) -> None:
        wait_until(lambda: errors or self._published() >= self.count, 60, f"{self.count} events")
        assert not errors, errors
        assert self._published() == self.count

    def _published(self) -> int:
        if not self._events.exists():
            return 0
        return self._events.read_bytes().count(b"\n")

    def _letters(self) -> int:
        ((count,),) = self.database.execute("SELECT count(*) FROM walrelay.dead_letters")
        return int(count)

    def _state(self) -> object:
        ((state,),) = self.database.execute("SELECT state FROM walrelay.relays")
        return state


@pytest.fixture(scope="module")
def newest(machine: Machine) -> Iterator[PostgresServer]:
    with PostgresServer(choose.found(lambda: choose.newest_postgres_programs(machine))) as server:
        yield server


@pytest.fixture
def make_life(tmp_path: Path) -> Iterator[Callable[[PostgresServer], Life]]:
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(closing(Life(server, tmp_path)))


def rounds(server: PostgresServer) -> list[list[Value]]:
    """One value of each setting in each, until all values had a turn."""
    found = extremes(server)
    return [[values[number] for values in found if number < len(values)] for number in range(max(map(len, found)))]


@pytest.mark.parametrize("number", range(3))
def test_a_relay_lives_with_extreme_settings_of_its_role(
    newest: PostgresServer, make_life: Callable[[PostgresServer], Life], number: int
) -> None:
    life = make_life(newest)
    life.has(rounds(newest)[number])
    life.live()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("major", _MAJORS)
def test_a_relay_lives_with_extreme_settings_on_every_version(
    private_postgres: PostgresMaker, make_life: Callable[[PostgresServer], Life], major: int
) -> None:
    server = private_postgres(major=major)
    life = make_life(server)
    for values in rounds(server):
        life.has(values)
        life.live()


@pytest.mark.chaos
@pytest.mark.parametrize("major", _MAJORS)
@pytest.mark.timeout(7200)
def test_a_relay_lives_with_each_extreme_setting_alone(
    private_postgres: PostgresMaker, make_life: Callable[[PostgresServer], Life], major: int
) -> None:
    server = private_postgres(major=major)
    life = make_life(server)
    for each in (value for values in extremes(server) for value in values):
        life.has([each])
        life.live()


def test_a_transaction_longer_than_transaction_timeout_is_published_once(newest: PostgresServer) -> None:
    database = newest.create_database()
    database.execute(f"ALTER DATABASE {database.name} SET transaction_timeout = '500ms'")
    outbox = Outbox(database, "text")
    outbox.init()
    outbox.broker.capacity = 100
    outbox.broker.withhold()
    with outbox.relay() as relay:
        with database.connect() as session:
            session.execute("SET transaction_timeout = 0")
            session.execute(
                "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)"
                " SELECT 'order', n::text, 'placed', to_jsonb(repeat('x', 2000)) FROM generate_series(1, 20000) AS n"
            )
        relay.offers(100)
        since = monotonic()  # the server decodes and sends for as long as the broker takes nothing
        relay.wait_until(lambda: monotonic() - since > 1.5, "three times the timeout to pass")
        outbox.broker.release()
        relay.confirms(outbox.end_of_wal())
        assert len(outbox.broker.offered) == 20000
        assert outbox.watcher.retries == []
    database.drop()
