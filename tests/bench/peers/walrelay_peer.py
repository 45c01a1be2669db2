"""walrelay, measured as the others are: the installed command with the settings that its README asks for."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka

import walrelay
from tests.bench.peers.contract import Command, Outbox, Site, Variant

_SQL = Path(__file__).parents[3] / "sql" / "outbox.sql"
_INSERT = """
INSERT INTO outbox (id, aggregate_type, aggregate_id, type, payload)
SELECT id, 'order', key, 'OrderPlaced', payload FROM rows
"""

OUTBOX = Outbox(_SQL.read_text().replace(":table", "outbox"), _INSERT)
"""walrelay's own table, which most peers can read as well."""

# The least there is; the topic is named because it is made beforehand. acks=all and at most 5 ms of batching are
# walrelay's defaults, so there is nothing to tune.
_SETTINGS = """\
source:
  dsn: {site.dsn}
route:
  topic: {site.topic}
sink:
  kind: kafka
  bootstrap_servers: {site.bootstrap_servers}
"""


class Walrelay:
    """`walrelay init`, then `walrelay run`; both variants are the same."""

    name = "walrelay"

    def install(self, cache: Path) -> str:
        return f"{walrelay.__version__}, librdkafka {confluent_kafka.libversion()[0]}"

    def outbox(self, variant: Variant) -> Outbox:
        return OUTBOX

    def prepare(self, site: Site, variant: Variant) -> None:
        (site.directory / "walrelay.yaml").write_text(_SETTINGS.format(site=site))
        subprocess.run(_walrelay("init"), cwd=site.directory, check=True, capture_output=True)

    def command(self, site: Site, variant: Variant) -> Command:
        return Command(_walrelay("run"), {}, site.directory)


def _walrelay(command: str) -> list[str]:
    return [sys.executable, "-m", "walrelay", command]
