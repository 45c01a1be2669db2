"""PostgreSQL as a target: a table of a database."""

import json
import os
import signal
from contextlib import suppress
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from tests.servers.database import Database
from tests.servers.ports import LOOPBACK
from tests.servers.postgres import PostgresServer
from tests.servers.topics import Received
from walrelay.model import Message, System
from walrelay.publish import ExactlyOnceSink, Sink
from walrelay.sinks.postgres.plugin import plugin
from walrelay.sinks.postgres.settings import PostgresSettings
from walrelay.testing import Arrived


class _Target:
    """A database of its own, with the tables that `walrelay init --topics` makes."""

    topic = "events"

    def __init__(self, server: PostgresServer) -> None:
        server.start()
        self.server, self.database = server, server.create_database()
        self.kill, self.start = self._kill, server.start
        self._make(self.settings())

    @property
    def sink(self) -> dict[str, Any]:
        return {"kind": "postgres", "dsn": self.database.dsn}

    def settings(self, **settings: Any) -> PostgresSettings:
        return PostgresSettings.model_validate({"dsn": self.database.dsn, **settings})

    def read_all(self, *topics: str) -> list[Received]:
        """Every row, each key as a partition of its own."""
        rows = self.database.execute(
            "SELECT seq, topic, key, value::text, headers::text, extract(epoch FROM committed_at) * 1000"
            " FROM walrelay_events ORDER BY seq"
        )
        keys: dict[str, int] = {}
        return [
            Received(
                topic,
                keys.setdefault(key, len(keys)),
                number,
                _bytes(key),
                _bytes(value),
                [(name, _bytes(text)) for name, text in json.loads(headers).items()],
                int(timestamp),
            )
            for number, topic, key, value, headers, timestamp in rows
        ]

    def close(self) -> None:
        self.server.start()
        self.database.drop()

    def _kill(self) -> None:
        self.server.stop("immediate")

    def _make(self, settings: PostgresSettings) -> None:
        assert plugin.make_topics is not None
        assert all(made for _, made in plugin.make_topics(settings, ["events"], 1, None))


class PostgresCase(_Target):
    """All of the server's processes are stopped to hold it."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server)
        self.memory, self.plugin = plugin.memory(), plugin

    def open(self, *, room: int = 10_000, **settings: Any) -> Sink:
        return plugin.open(self.settings(max_in_flight=room, **settings), self.memory)

    def open_exactly_once(self, system: System, slot: str, **settings: Any) -> ExactlyOnceSink:
        assert plugin.exactly_once is not None
        return plugin.exactly_once.open(self.settings(**settings), self.memory, system, slot, None)

    def at(self, port: int) -> dict[str, Any]:
        return {"dsn": make_conninfo(self.database.dsn, host=LOOPBACK, port=port)}

    def refused(self, message: Message) -> Message:
        """The sink itself refuses a header with a zero byte."""
        return message._replace(headers=[*message.headers, ("zero", b"\0")])

    def hold(self) -> None:
        self._signal(signal.SIGSTOP)

    def release(self) -> None:
        self._signal(signal.SIGCONT)

    def arrived(self) -> list[Arrived]:
        return [Arrived(got.key, got.value, got.headers) for got in self.read_all()]

    def cut_connections(self) -> None:
        self.database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'walrelay sink'"
        )

    def _signal(self, number: signal.Signals) -> None:
        postmaster = psutil.Process(self.server.pid)
        for each in (postmaster, *postmaster.children()):
            with suppress(ProcessLookupError):  # one of them may have ended meanwhile
                os.kill(each.pid, number)


class PostgresTable(_Target):
    """`Broker`."""


def execute(database: Database, *statements: str) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
