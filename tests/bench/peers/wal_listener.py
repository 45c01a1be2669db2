"""wal-listener: pgoutput to Kafka, one message a round trip."""

from pathlib import Path

from tests.bench.peers.contract import Command, NotRun, Outbox, Site, Variant
from tests.bench.peers.on_path import answer, on_path
from tests.bench.peers.pgoutput import publish
from tests.bench.peers.walrelay_peer import OUTBOX

_SLOT = "wal_listener_slot"
_PUBLICATION = "wal-listener"  # the only name it knows

# What it would make itself at its first start, and what its README says to make instead for filtering in the database.
_PUBLICATIONS: dict[Variant, str] = {
    "documented": f'CREATE PUBLICATION "{_PUBLICATION}" FOR ALL TABLES',
    "tuned": f"CREATE PUBLICATION \"{_PUBLICATION}\" FOR TABLE outbox WITH (publish = 'insert')",
}

# The producer asks for acks=all and waits for each message before it sends the next; neither a batch, a compression,
# idempotence nor binary values can be set. That leaves its log, which has a line for each event at level info.
_LOG_LEVELS: dict[Variant, str] = {"documented": "info", "tuned": "warn"}

# Without messageKeyFrom the partition of each message is a random one.
_SETTINGS = """\
listener:
  slotName: {slot}
  refreshConnection: 30s
  heartbeatInterval: 10s
  filter:
    tables:
      outbox:
        - insert
  topicsMap:
    public_outbox: "{mapped}"
logger:
  level: {level}
  fmt: json
database:
  host: {site.host}
  port: {site.port}
  name: {site.database}
  user: {site.user}
  password: {site.password}
publisher:
  type: kafka
  address: {site.bootstrap_servers}
  topic: "{prefix}"
  messageKeyFrom: aggregate_id
"""


class WalListener:
    """One process of Go."""

    name = "wal-listener"

    def __init__(self) -> None:
        self._program = Path()

    def install(self, cache: Path) -> str:
        self._program = on_path("wal-listener")
        return answer(self._program, "--version").rpartition(" ")[2]

    def outbox(self, variant: Variant) -> Outbox:
        return OUTBOX

    def prepare(self, site: Site, variant: Variant) -> None:
        publish(site, _PUBLICATIONS[variant], _SLOT)
        (site.directory / "config.yml").write_text(_settings(site, _LOG_LEVELS[variant]))

    def command(self, site: Site, variant: Variant) -> Command:
        return Command([self._program, "--config", "config.yml"], {}, site.directory)


def _settings(site: Site, level: str) -> str:
    # It joins two names with a dot, whatever the settings say.
    prefix, dot, mapped = site.topic.partition(".")
    if not dot:
        raise NotRun(f"it publishes to topics with a dot in their name only, and {site.topic} has none")
    return _SETTINGS.format(site=site, slot=_SLOT, level=level, prefix=prefix, mapped=mapped)
