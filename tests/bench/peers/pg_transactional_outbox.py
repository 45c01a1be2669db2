"""pg-transactional-outbox: a library for Node.js with a listener for logical replication; publishes with kafkajs."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.bench.peers.contract import Command, NotRun, Outbox, Site, Variant
from tests.bench.peers.pgoutput import publish

_VERSION = "0.5.7"
_PACKAGES = {"pg-transactional-outbox": _VERSION, "pg": "8.23.1", "pg-logical-replication": "2.5.0", "kafkajs": "2.2.4"}
_NODE_AT_LEAST = 20
_PROGRAM = Path(__file__).with_suffix(".cjs")

_SLOT = "pg_transactional_outbox_slot"
_PUBLICATION = "pg_transactional_outbox_pub"

# As its DatabaseSetup writes it.
_TABLE = """
CREATE TABLE outbox (
    id uuid PRIMARY KEY,
    aggregate_type text NOT NULL,
    aggregate_id text NOT NULL,
    message_type text NOT NULL,
    segment text,
    concurrency text NOT NULL DEFAULT 'sequential' CHECK (concurrency IN ('sequential', 'parallel')),
    payload jsonb NOT NULL,
    metadata jsonb,
    locked_until timestamptz NOT NULL DEFAULT to_timestamp(0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    processed_at timestamptz,
    abandoned_at timestamptz,
    started_attempts smallint NOT NULL DEFAULT 0,
    finished_attempts smallint NOT NULL DEFAULT 0
)
"""
_INSERT = """
INSERT INTO outbox (id, aggregate_type, aggregate_id, message_type, segment, payload)
SELECT id, 'order', key, 'order_placed', key, payload FROM rows
"""

_DOCUMENTED: dict[str, Any] = {"atATime": 1, "producer": {}}
_TUNED: dict[str, Any] = {"atATime": 20, "producer": {"acks": -1, "idempotent": True, "maxInFlightRequests": 1}}


class PgTransactionalOutbox:
    """Listener and publisher in one process of Node.js."""

    name = "pg-transactional-outbox"

    def __init__(self) -> None:
        self._node = "node"
        self._home = Path()

    def install(self, cache: Path) -> str:
        self._node, npm = shutil.which("node") or "", shutil.which("npm")
        if not self._node or npm is None or _major(self._node) < _NODE_AT_LEAST:
            raise NotRun(f"needs Node.js {_NODE_AT_LEAST} or later, with npm")
        self._home = cache / f"{self.name}-{_VERSION}"
        if not (self._home / "installed").exists():
            _install(npm, self._home)
        return f"{_VERSION}, kafkajs {_PACKAGES['kafkajs']}"

    def outbox(self, variant: Variant) -> Outbox:
        return Outbox(_TABLE, _INSERT)

    def prepare(self, site: Site, variant: Variant) -> None:
        publish(site, f"CREATE PUBLICATION {_PUBLICATION} FOR TABLE outbox WITH (publish = 'insert')", _SLOT)
        self._settings(site).write_text(json.dumps(_settings(site, _DOCUMENTED if variant == "documented" else _TUNED)))

    def command(self, site: Site, variant: Variant) -> Command:
        modules = self._home / "node_modules"
        return Command([self._node, _PROGRAM, self._settings(site)], {"NODE_PATH": str(modules)}, site.directory)

    def _settings(self, site: Site) -> Path:
        return site.directory / "settings.json"


def _major(node: str) -> int:
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.removeprefix("v").partition(".")[0])


def _install(npm: str, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "package.json").write_text(json.dumps({"private": True, "dependencies": _PACKAGES}))
    done = subprocess.run([npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], cwd=home)
    if done.returncode != 0:
        raise NotRun(f"npm could not install it (exit code {done.returncode})")
    (home / "installed").touch()


def _settings(site: Site, tuning: dict[str, Any]) -> dict[str, Any]:
    connection = {"host": site.host, "port": site.port, "user": site.user, "password": site.password}
    listener = {**connection, "database": site.database}
    return {
        **tuning,
        "brokers": site.bootstrap_servers.split(","),
        "topic": site.topic,
        "listener": {
            "outboxOrInbox": "outbox",
            "dbListenerConfig": listener,
            "dbHandlerConfig": {**listener, "max": max(10, tuning["atATime"])},
            "settings": {
                "dbSchema": "public",
                "dbTable": "outbox",
                "enableMaxAttemptsProtection": False,
                "enablePoisonousMessageProtection": False,
                "dbPublication": _PUBLICATION,
                "dbReplicationSlot": _SLOT,
            },
        },
    }
