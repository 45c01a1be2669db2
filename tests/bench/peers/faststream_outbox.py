"""faststream-outbox: a FastStream broker that polls its table; FastStream's broker for Kafka (aiokafka) publishes."""

import json
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Any

from tests.bench.peers.contract import Command, NotRun, Outbox, Site, Variant

_VERSION = "0.19.0"
_PACKAGES = (
    f"faststream-outbox[asyncpg]=={_VERSION}",
    "faststream[cli,kafka]==0.7.8",
    "aiokafka==0.14.0",
    "asyncpg==0.32.0",
    "pydantic==2.14.3",
    "sqlalchemy[asyncio]==2.1.9",
)

# What its make_outbox_table() makes.
_TABLE = """
CREATE TABLE outbox (
    id bigserial PRIMARY KEY,
    queue varchar(255) NOT NULL,
    payload bytea NOT NULL,
    headers jsonb,
    attempts_count bigint NOT NULL DEFAULT 0,
    deliveries_count bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    first_attempt_at timestamptz,
    last_attempt_at timestamptz,
    acquired_at timestamptz,
    acquired_token uuid,
    timer_id varchar(255),
    CONSTRAINT outbox_lease_ck CHECK ((acquired_token IS NULL) = (acquired_at IS NULL))
);
CREATE INDEX outbox_pending_idx ON outbox (queue, next_attempt_at, id) WHERE acquired_token IS NULL;
CREATE INDEX outbox_leased_idx ON outbox (queue, next_attempt_at, id) WHERE acquired_token IS NOT NULL;
CREATE UNIQUE INDEX outbox_timer_id_uq ON outbox (queue, timer_id) WHERE timer_id IS NOT NULL
"""

# What its publish() inserts, with the key among the headers, and the notification that wakes its subscriber.
_INSERT = """
INSERT INTO outbox (queue, payload, headers)
SELECT queue, convert_to(payload::text, 'UTF8'),
       jsonb_build_object('content-type', 'application/json', 'correlation_id', id, 'key', key)
FROM rows, LATERAL (SELECT {queue}) AS its (queue), LATERAL pg_notify('outbox_outbox', queue)
"""

# The example of its documentation, with a key, which that leaves out.
_PROGRAM = """
import json
import logging
from pathlib import Path

from faststream import FastStream
from faststream.kafka import KafkaBroker, KafkaResponse
from faststream_outbox import OutboxBroker, make_outbox_table
from faststream_outbox.annotations import OutboxMessage
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

settings = json.loads(Path("settings.json").read_text())
quiet = {"logger": logging.getLogger("relay")} if settings["quiet"] else {}  # only that tells of no message by itself

engine = create_async_engine(settings["dsn"])
outbox_table = make_outbox_table(MetaData(), table_name="outbox")
broker_outbox = OutboxBroker(engine, outbox_table=outbox_table, **quiet)
broker_kafka = KafkaBroker(settings["bootstrap_servers"], **settings["kafka"])
publisher_kafka = broker_kafka.publisher(settings["topic"])


async def relay(body: dict, message: OutboxMessage) -> KafkaResponse:
    return KafkaResponse(body, key=message.headers["key"].encode())


for queue in settings["queues"]:
    publisher_kafka(broker_outbox.subscriber(queue, **settings["subscriber"])(relay))

app = FastStream(broker_outbox, on_startup=[broker_kafka.connect])
"""

_DOCUMENTED: dict[str, Any] = {"quiet": False, "queues": ["events"], "kafka": {}, "subscriber": {}}

_QUEUES = 4  # a power of two

# A worker a queue is what keeps the order, so there are more queues rather than more workers, and a key has its queue.
_TUNED: dict[str, Any] = {
    "quiet": True,
    "queues": [f"events-{number}" for number in range(_QUEUES)],
    "kafka": {"acks": "all", "enable_idempotence": True},
    "subscriber": {
        "fetch_batch_size": 100,
        "terminal_flush_batch_size": 100,
        "min_fetch_interval": 0.05,
        "max_fetch_interval": 0.1,
        "lease_ttl_seconds": 10.0,
    },
}


class FastStreamOutbox:
    """Poller and publisher in one process of Python."""

    name = "faststream-outbox"

    def __init__(self) -> None:
        self._python = Path()

    def install(self, cache: Path) -> str:
        home = cache / f"{self.name}-{_VERSION}"
        self._python = home / "bin" / "python"
        if not (home / "installed").exists():
            _install(home, self._python)
        return _VERSION

    def outbox(self, variant: Variant) -> Outbox:
        queue = "'events'" if variant == "documented" else f"'events-' || (hashtext(key) & {_QUEUES - 1})"
        return Outbox(_TABLE, _INSERT.format(queue=queue))

    def prepare(self, site: Site, variant: Variant) -> None:
        dsn = f"postgresql+asyncpg://{site.user}:{site.password}@{site.host}:{site.port}/{site.database}"
        where = {"dsn": dsn, "bootstrap_servers": site.bootstrap_servers, "topic": site.topic}
        tuning = _DOCUMENTED if variant == "documented" else _TUNED
        (site.directory / "settings.json").write_text(json.dumps({**where, **tuning}))
        (site.directory / "relay.py").write_text(_PROGRAM)

    def command(self, site: Site, variant: Variant) -> Command:
        return Command([self._python, "-m", "faststream", "run", "relay:app"], {}, site.directory)


def _install(home: Path, python: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    try:
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *_PACKAGES], check=True)
    except subprocess.CalledProcessError as error:
        raise NotRun(f"pip could not install it: exit code {error.returncode}") from error
    (home / "installed").touch()
