"""pgstream: wal2json to Kafka."""

from pathlib import Path

from tests.bench.peers.contract import Command, Outbox, Site, Variant
from tests.bench.peers.on_path import answer, on_path
from tests.bench.peers.walrelay_peer import OUTBOX

_SLOT = "pgstream_bench_slot"

_SETTINGS = """\
source:
  postgres:
    url: "{site.dsn}?sslmode=disable"
    mode: replication
    replication:
      replication_slot: "{slot}"
target:
  kafka:
    servers: ["{site.bootstrap_servers}"]
    topic:
      name: "{site.topic}"
"""

# acks=all is how it is built; idempotence, compression and binary values cannot be set. Its Kafka client waits another
# 10 ms, fixed, for a batch that is not full. A batch may have at most what a broker takes by default: 1 MiB.
#
# Messages stay keyed by the schema, its default, and so in one partition: the other keys are the table and the primary
# key, which keep them there or lose the order of an aggregate's events.
_BATCHES: dict[Variant, str] = {
    "documented": "",
    "tuned": """\
    batch:
      timeout: 5
      size: 1000
      max_bytes: 1000000
""",
}

# It logs everything by default, one line or more a batch.
_LOG_LEVELS: dict[Variant, list[str]] = {"documented": [], "tuned": ["--log-level", "warn"]}


class Pgstream:
    """`pgstream init`, then `pgstream run`; needs wal2json in the server."""

    name = "pgstream"

    def __init__(self) -> None:
        self._program = Path()

    def install(self, cache: Path) -> str:
        self._program = on_path("pgstream")
        return answer(self._program, "--version").rpartition(" ")[2]

    def outbox(self, variant: Variant) -> Outbox:
        return OUTBOX

    def prepare(self, site: Site, variant: Variant) -> None:
        settings = site.directory / "pgstream.yaml"
        settings.write_text(_SETTINGS.format(site=site, slot=_SLOT) + _BATCHES[variant])
        answer(self._program, "init", "--config", settings)

    def command(self, site: Site, variant: Variant) -> Command:
        return Command([self._program, "run", "--config", "pgstream.yaml", *_LOG_LEVELS[variant]], {}, site.directory)
