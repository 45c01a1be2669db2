"""A shop that the console looks at: PostgreSQL, a relay that runs and one that does not, dead letters, and `walrelay
admin`, all of them real.
"""

import json
import time
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.admin_process import AdminProcess
from tests.acceptance.relay_process import RelayProcess
from tests.servers.database import Database
from walrelay.admin.access import NewToken, new_token
from walrelay.cli import main
from walrelay.dead_letter import DeadLetter, Origin, record_json
from walrelay.dead_letters import DeadLetterTableWriter
from walrelay.lsn import LSN
from walrelay.model import Message, OutboxRecord
from walrelay.postgres.catalog import Catalog

HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=2</script>\'"&'
"""What would run if any text became markup."""

MANY = 100_000
"""Dead letters of the relay that does not run."""

RELAYS = 100
"""In the overview, all together; most of them are of other settings files."""

PAYLOAD = '{"order": 4711, "big": 12345678901234567890, "amount": "12,50", "note": ' + json.dumps(HOSTILE) + "}"


class Shop:
    """`orders` runs. `returns`, which has few dead letters, and `invoices`, which has many, do not."""

    def __init__(self, directory: Path, database: Database) -> None:
        self.database, self.directory = database, directory
        self.config = directory / "walrelay.yaml"
        self.tokens: dict[str, NewToken] = {name: new_token() for name in ("read", "operate", "admin", "orders")}
        self.config.write_text(yaml.safe_dump(self._settings()))
        main.main(["init", "--config", str(self.config)], standalone_mode=False)
        self._fill()
        self.relay = RelayProcess(self.config, "--relay", "orders")
        self.relay.wait_for("streaming")
        self.admin = AdminProcess(self.config)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.admin.first['port']}/"

    def slot(self, relay: str) -> str:
        return f"{self.database.name}_{relay}"

    def emit(self, payload: str = '{"n": 1}', key: str = "42", kind: str = "OrderPlaced") -> str:
        """One event; its id."""
        ((id_,),) = self.database.execute(
            "SELECT walrelay.emit('order', %s, %s, %s::jsonb)::text", [key, kind, payload]
        )
        return str(id_)

    def add_letter(self, number: int, **changes: Any) -> int:
        """A dead letter of `returns` with a hostile event; its number."""
        record = _record(number)
        message = Message("outbox.event.order", HOSTILE.encode(), record.payload, [("id", record.id.encode())], 5)
        letter = DeadLetter(
            Origin(record.commit_lsn, number, 0, record.id),
            "waiting",
            "schema_mismatch",
            f"amount is not a number {HOSTILE}",
            message.topic,
            message.key,
            record,
            message,
        )._replace(**changes)
        with Catalog(self.database.dsn) as catalog:
            DeadLetterTableWriter(catalog, self.slot("returns"), lambda topic: "file").write(letter)
        query = "SELECT id FROM walrelay.dead_letters WHERE slot_name = %s AND record_id = %s"
        ((id_,),) = self.database.execute(query, [self.slot("returns"), record.id])
        return int(id_)

    def status(self, letter: int) -> str:
        ((status,),) = self.database.execute("SELECT status FROM walrelay.dead_letters WHERE id = %s", [letter])
        return str(status)

    def messages(self, relay: str) -> list[dict[str, Any]]:
        """What was published for a relay."""
        path = self._published(relay)
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _published(self, relay: str) -> Path:
        return self.directory / f"{relay}.jsonl"

    def close(self) -> None:
        self.admin.stop()
        if self.relay.running:
            self.relay.kill()

    def _settings(self) -> dict[str, Any]:
        tokens: list[dict[str, Any]] = [
            {"name": f"{name}er", "sha256": self.tokens[name].sha256, "scope": name}
            for name in ("read", "operate", "admin")
        ]
        tokens.append({"name": "one", "sha256": self.tokens["orders"].sha256, "scope": "admin", "relays": ["orders"]})
        return {
            "defaults": {
                "source": {"dsn": self.database.dsn},
                "log": {"format": "json"},
                "retry": {"max_pause": 1},
                "admin": {"listen": "127.0.0.1:0", "tokens": tokens, "requests_per_second": 1000},
            },
            "relays": {
                name: {
                    "source": {"slot": self.slot(name)},
                    "sink": {"kind": "file", "path": str(self._published(name))},
                }
                for name in ("orders", "returns")
            }
            | {
                "invoices": {"source": {"slot": self.slot("invoices")}, "sink": {"kind": "memory"}},
            },
        }

    def _fill(self) -> None:
        now = time.time()
        self.database.execute(
            "INSERT INTO walrelay.dead_letters (slot_name, commit_lsn, ordinal, record_id, sink, topic, key, status,"
            " error, reason, attempts, first_at, last_at, record) SELECT %s, '0/100'::pg_lsn + n, 0, 'invoice-' || n,"
            " 'memory', 'invoices.' || n %% 3, convert_to('k' || n, 'UTF8'), 'waiting',"
            " CASE n %% 3 WHEN 0 THEN 'too_large' ELSE 'schema_mismatch' END, 'it is ' || %s, 1, to_timestamp(%s + n),"
            " to_timestamp(%s + n), %s FROM generate_series(1, %s) n",
            [self.slot("invoices"), HOSTILE, now - 2 * MANY, now - 2 * MANY, record_json(_record(0)), MANY],
        )
        self.database.execute("ANALYZE walrelay.dead_letters")
        self.database.execute(
            "INSERT INTO walrelay.relays (slot_name, name) SELECT 'elsewhere_' || n, 'tenant-' || n FROM"
            " generate_series(4, %s) n",
            [RELAYS],
        )


def _record(number: int) -> OutboxRecord:
    payload = PAYLOAD.encode()
    return OutboxRecord(
        LSN(100), number, 0, f"letter-{number}", "order", "4711", HOSTILE, payload, None, None, None, None
    )
