"""An outbox that is read in one of the four ways, and the real relay of it in a thread."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import Any, Self
from uuid import uuid4

from psycopg import Connection

from tests.integration.relaying.broker import KIND, Broker, Killed, RecordingSettings
from tests.integration.relaying.ways import WAYS
from tests.seen import Seen
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay import compose
from walrelay.config import Settings
from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Message
from walrelay.operations import recovery, setup
from walrelay.operations.backfill import backfill_until
from walrelay.operations.recovery import KeptPosition
from walrelay.postgres.catalog import Catalog
from walrelay.supervise import Stop
from walrelay.table.backfill_journal import Scope

PATIENCE = 60.0


_SENTINELS = "sentinels"  # their topic


class Outbox:
    """One outbox table, its slot and the broker behind it, under settings given as in the file, by section."""

    def __init__(self, database: Database, way: str, *, broker: Broker | None = None, **sections: Any) -> None:
        self.database, self.way, self._sections = database, way, sections
        self.broker = broker or Broker()
        self.watcher = Seen()
        self.settings = self._settings()
        self.wiring = compose.wiring(self.settings)

    def under(self, **sections: Any) -> "Outbox":
        """The same outbox, slot and broker under other settings; sections are merged with those it had."""
        merged = {**self._sections, **{name: _merged(self._sections.get(name), it) for name, it in sections.items()}}
        return Outbox(self.database, self.way, broker=self.broker, **merged)

    def init(self, patience: float = 10.0) -> dict[str, str]:
        """`walrelay init`: what came of each step."""
        with Catalog(self.wiring.dsn) as catalog:
            steps = setup.plan(catalog, self.wiring)
            return {
                step.what: str(outcome) for step, outcome in setup.apply(catalog, self.wiring, steps, patience=patience)
            }

    def backfill(self, patience: float = 10.0, stop: Event | None = None) -> bool:
        """`walrelay init --backfill`: whether it got to its end."""
        with Catalog(self.wiring.dsn) as catalog:
            steps = setup.plan_backfill(catalog, self.wiring)
            list(setup.apply(catalog, self.wiring, steps[:-1], patience=patience))
        scope = Scope()
        return backfill_until(stop or Event(), self.wiring, scope, self.watcher, patience=patience)

    def recover(self, kept: Sequence[KeptPosition] | None = None, **wish: Any) -> recovery.Recovery:
        """`walrelay recover --yes`: what it said before it began."""
        plan = recovery.plan_recovery(self.wiring, recovery.RecoveryRequest(**wish), kept)
        with Catalog(self.wiring.dsn) as catalog:
            list(setup.apply(catalog, self.wiring, setup.surroundings(catalog, self.wiring), patience=10))
        assert backfill_until(Event(), self.wiring, plan.scope, self.watcher, patience=10, known=plan.known), (
            "the recovery did not finish"
        )
        return plan

    def relay(self) -> "Relaying":
        """A relay that runs from entering the context until leaving it."""
        return Relaying(self)

    def failure(self) -> Fatal:
        """The error that ends a relay which is started now."""
        with self.relay() as relay:
            return relay.failure()

    def write(self, *numbers: object, connection: Connection[Any] | None = None) -> None:
        """A row for each number, its aggregate and payload; a transaction a row, or the caller's."""
        with _either(connection, self.database) as session:
            for number in numbers:
                session.execute(
                    f"INSERT INTO {self.wiring.table} (aggregate_type, aggregate_id, type, payload)"
                    " VALUES ('order', %s, 'placed', %s)".encode(),
                    [str(number), json.dumps(number)],
                )

    def messages(self, relay: "Relaying") -> list[Message]:
        """All durable messages of everything that is committed by now: a sentinel is sent after it and waited for."""
        sentinel = f"sentinel {uuid4()}"
        event = {"id": sentinel, "aggregate_type": "test", "topic": _SENTINELS, "payload": None}
        self.database.execute("SELECT pg_logical_emit_message(true, 'walrelay', %s)", [json.dumps(event)])
        relay.wait_until(
            lambda: any(header(message, "id") == sentinel.encode() for message in self.broker.durable), sentinel
        )
        return without_sentinels(self.broker.durable)

    def values(self, relay: "Relaying") -> list[bytes | None]:
        """The values of `messages`."""
        return [message.value for message in self.messages(relay)]

    def end_of_wal(self) -> LSN:
        """The end of all that is committed by now."""
        ((lsn,),) = self.database.execute("SELECT pg_current_wal_flush_lsn()::text")
        return LSN.parse(str(lsn))

    @property
    def confirmed(self) -> LSN:
        """What the server knows to be confirmed."""
        return LSN.parse(str(self.slot("confirmed_flush_lsn::text")))

    def slot(self, expression: str) -> Any:
        """An expression over the slot's row in pg_replication_slots."""
        query = f"SELECT {expression} FROM pg_replication_slots WHERE slot_name = %s"
        ((value,),) = self.database.server.execute(query, [self.settings.source.slot])
        return value

    def _settings(self) -> Settings:
        source = {"dsn": self.database.dsn, "slot": f"{self.database.name}_{self.way}", **WAYS[self.way]}
        sections = {
            "retry": {"min_pause": 0.02, "max_pause": 0.2},
            **self._sections,
            "source": {**source, **self._sections.get("source", {})},
            "outbox": _merged({"messages": {"prefix": "walrelay"}}, self._sections.get("outbox", {})),
        }
        place = sections.pop("place", "{topic}")
        if "sinks" not in sections:
            sections["sink"] = {"kind": KIND, "settings": RecordingSettings(broker=self.broker, place=place)}
        return Settings.model_validate(sections)


class Relaying:
    """The real relay, supervised as `walrelay run` does it, in a thread of its own."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._stop = Stop()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:  # the test's own error is the one to see
            self._stop.set()
            self._thread.join(PATIENCE)

    def wait_until(self, condition: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
        """Waits for something that the relay does; its error if it ends before."""
        wait_until(lambda: self._error or condition(), timeout, what)
        self._raise()

    def streams(self, times: int = 1) -> None:
        """Waits until the slot streams, so many times as there are runs."""
        self.wait_until(lambda: len(self._outbox.watcher.starts) >= times, "the slot to stream")

    def offers(self, messages: int) -> None:
        """Waits until so many messages were offered to the broker, all runs together."""
        offered = self._outbox.broker.offered
        self.wait_until(lambda: len(offered) >= messages, f"{self._outbox.way} to offer {messages} messages")

    def confirms(self, lsn: LSN, timeout: float = PATIENCE) -> None:
        """Waits until the server knows that everything before `lsn` is durable."""
        self.wait_until(lambda: self._outbox.confirmed >= lsn, f"{self._outbox.way} to confirm {lsn}", timeout)

    @property
    def ended(self) -> bool:
        """Whether it is over, for whatever reason."""
        return not self._thread.is_alive()

    def failure(self) -> Fatal:
        """Waits for the Fatal that ends the relay."""
        self._thread.join(PATIENCE)
        error, self._error = self._error, None
        assert isinstance(error, Fatal), f"the relay should have ended in a Fatal, not in {error!r}"
        return error

    def stop(self) -> None:
        """Stops the relay in good order."""
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the relay does not stop"
        self._raise()

    def dies(self) -> None:
        """Waits until the relay has died of the broker's `Killed`."""
        self._thread.join(PATIENCE)
        error, self._error = self._error, None
        assert isinstance(error, Killed), f"the relay should have been killed, not ended by {error!r}"

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            compose.relay_until(self._stop, self._outbox.wiring, self._outbox.watcher)
        except BaseException as error:
            self._error = error


@contextmanager
def relaying(outboxes: list[Outbox]) -> Iterator[list[Relaying]]:
    """A relay of each of the outboxes."""
    with ExitStack() as stack:
        yield [stack.enter_context(outbox.relay()) for outbox in outboxes]


def small(**columns: str | None) -> dict[str, Any]:
    """Settings for a table `t` that has id, aggregate_id and payload, and `columns` besides."""
    absent = dict.fromkeys(("aggregate_type", "type", "headers", "topic", "tenant_id", "created_at"))
    return {"outbox": {"table": "t", "columns": {**absent, **columns}}, "route": {"topic": "events"}}


def without_sentinels(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.topic != _SENTINELS]


def header(message: Message, name: str) -> bytes | None:
    """The header of that name, which is there once."""
    (value,) = (value for each, value in message.headers if each == name)
    return value


def position(message: Message) -> tuple[LSN, int]:
    """Where the record of the message stands: commit LSN and ordinal."""
    lsn, _, ordinal = (header(message, "position") or b"").decode().partition(":")
    return LSN.parse(lsn), int(ordinal)


def _merged(section: object, changes: object) -> object:
    if not isinstance(section, dict) or not isinstance(changes, dict):
        return changes
    return {**section, **{name: _merged(section.get(name), value) for name, value in changes.items()}}


@contextmanager
def _either(connection: Connection[Any] | None, database: Database) -> Iterator[Connection[Any]]:
    if connection is not None:
        yield connection
        return
    with database.connect() as own:
        yield own
