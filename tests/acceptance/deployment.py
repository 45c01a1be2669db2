"""A walrelay of one's own: settings for one database and one topic, its slot, and the relay that runs on them."""

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import yaml

from tests.acceptance.relay_process import WALRELAY, RelayProcess
from tests.brokers import Broker
from tests.servers.database import Database
from tests.servers.topics import Kafka, Received
from tests.servers.waiting import NotInTime, wait_until
from walrelay.cli import main
from walrelay.lsn import LSN

SLOT = "walrelay"


class Slot(NamedTuple):
    """Where the slot stands, and the walsender's process while one streams it."""

    confirmed: LSN
    restart: LSN
    pid: int | None


class Deployment:
    """`init` was run for it. Sections of the settings are dictionaries: `source={"receive_timeout": 2}`; an empty one
    is left empty, and None leaves it out.
    """

    def __init__(
        self, directory: Path, database: Database, broker: Kafka | Broker, topic: str, **sections: Any
    ) -> None:
        self.database, self.broker, self.topic = database, broker, topic
        self.config = directory / f"{database.name}.yaml"
        self.relays: list[RelayProcess] = []
        self._sections = sections
        self.write_settings()
        # In this process: to start Python for it would take longer than all else in many a test.
        main.main(["init", "--config", str(self.config)], standalone_mode=False)

    def write_settings(self, **sections: Any) -> None:
        """Writes the settings file again, with these sections changed."""
        self._sections |= sections
        defaults: dict[str, Any] = {
            "source": {"dsn": self.database.dsn, "slot": self.slot_name},
            "outbox": {"max_message_bytes": 2**30},  # so that what is too large for the broker gets there
            "route": {"topic": self.topic},
            "sink": self._sink,
            "retry": {"max_pause": 1},
            "log": {"format": "json"},
        }
        for name, section in self._sections.items():
            defaults[name] = {**defaults.get(name, {}), **section} if section and isinstance(section, dict) else section
        sections = {name: section for name, section in defaults.items() if section is not None}
        self.config.write_text(yaml.safe_dump(sections))

    @property
    def kafka(self) -> Kafka:
        """For tests of Kafka."""
        assert isinstance(self.broker, Kafka)
        return self.broker

    @property
    def _sink(self) -> dict[str, Any]:
        """Another broker than Kafka has its own section."""
        if isinstance(self.broker, Kafka):
            return {"kind": "kafka", "bootstrap_servers": self.broker.bootstrap_servers}
        return self.broker.sink

    def command(self, *arguments: str, exit_code: int | None = 0) -> str:
        """The standard output of another walrelay command, which must succeed, or end with that exit code (None: with
        any).
        """
        return self._done(arguments, exit_code).stdout.decode()

    def output(self, *arguments: str) -> bytes:
        """As `command`, byte for byte."""
        return self._done(arguments, 0).stdout

    def said(self, *arguments: str, exit_code: int | None = 0) -> str:
        """As `command`, what it said on stderr."""
        return self._done(arguments, exit_code).stderr.decode()

    def _done(self, arguments: tuple[str, ...], exit_code: int | None) -> "subprocess.CompletedProcess[bytes]":
        done = subprocess.run([WALRELAY, *arguments, "--config", self.config], capture_output=True, timeout=60)
        assert exit_code in (None, done.returncode), done.stderr.decode()
        return done

    def launch(self, *options: str) -> RelayProcess:
        """A relay that may not even stream yet."""
        relay = RelayProcess(self.config, *options)
        self.relays.append(relay)
        return relay

    def start(self) -> RelayProcess:
        """A relay that streams."""
        relay = self.launch()
        relay.wait_for("streaming")
        return relay

    @property
    def slot_name(self) -> str:
        """Slots are the server's, not the database's: tests share the server."""
        return f"{SLOT}_{self.database.name}"

    @property
    def slot(self) -> Slot:
        ((confirmed, restart, pid),) = self.database.execute(
            "SELECT confirmed_flush_lsn::text, restart_lsn::text, active_pid FROM pg_replication_slots"
            " WHERE slot_name = %s",
            [self.slot_name],
        )
        return Slot(LSN.parse(confirmed), LSN.parse(restart), pid)

    def position(self) -> LSN:
        """The end of the WAL now: whatever was committed before is before it."""
        ((lsn,),) = self.database.execute("SELECT pg_current_wal_insert_lsn()::text")
        return LSN.parse(lsn)

    def catch_up(self, timeout: float = 60) -> None:
        """Returns when the relay has confirmed all that is committed by now."""
        end = wait_until(self.position, timeout, "PostgreSQL to answer", ignoring=psycopg.OperationalError)
        try:
            wait_until(
                lambda: self.slot.confirmed >= end, timeout, f"{end} to be confirmed", ignoring=psycopg.OperationalError
            )
        except NotInTime as error:
            error.add_note(f"the log ends in {self.relays[-1].log[-5:]}")
            raise

    def write(self, *payloads: str, key: str = "a", topic: str | None = None) -> list[str]:
        """One transaction with an event for each payload (JSON texts); the ids, in order."""
        with self.database.connect(autocommit=False) as connection:
            rows = [
                connection.execute(
                    "SELECT walrelay.emit('thing', %s, 'Happened', %s::jsonb, topic => %s)", [key, payload, topic]
                ).fetchone()
                for payload in payloads
            ]
        return [str(row[0]) for row in rows if row is not None]

    def write_rows(self, count: int, *, keys: int = 50, padding: int = 0) -> None:
        """One transaction of so many events, which the server makes; their payloads say {"n": 1} and so on."""
        self.database.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, type, payload)"
            " SELECT 'thing', mod(n, %s), 'Happened', jsonb_build_object('n', n, 'padding', repeat('x', %s))"
            " FROM generate_series(1, %s) n",
            [keys, padding, count],
        )

    def delivered(self) -> list[Received]:
        """Every message in the topic, each partition in its order."""
        return self.broker.read_all(self.topic)

    def delivered_ids(self) -> list[str]:
        """The ids of the messages in the topic, in the order of its partition."""
        return [event_id(message) for message in self.delivered()]


def event_id(message: Received) -> str:
    """The id of the outbox row that the message was made from."""
    return header(message, "id")


def header(message: Received, name: str) -> str:
    value = dict(message.headers)[name]
    assert value is not None
    return value.decode()
