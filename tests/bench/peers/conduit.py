"""Conduit with its built-in connectors: pgoutput to Kafka."""

from pathlib import Path
from typing import NamedTuple

from tests.bench.peers.contract import Command, Outbox, Site, Variant
from tests.bench.peers.on_path import answer, on_path
from tests.bench.peers.pgoutput import publish
from tests.bench.peers.walrelay_peer import OUTBOX

# The connector's default names; it takes both over when they are there.
_SLOT = "conduitslot"
_PUBLICATION = "conduitpub"

# Departures from the defaults that it needs to work with this table. No snapshot, which would publish the backlog a
# second time. No Avro schema: it takes a column's type without NULL, and ends the pipeline at the first NULL. The key
# is the primary key otherwise, which would lose the order of an aggregate's events; the format writes a jsonb column
# in Base64 otherwise.
_PIPELINE = """\
version: 2.2
pipelines:
  - id: outbox
    status: running
    connectors:
      - id: postgres
        type: source
        plugin: builtin:postgres
        settings:
          url: "{site.dsn}?sslmode=disable"
          tables: "outbox"
          cdcMode: "logrepl"
          logrepl.publicationName: "{publication}"
          logrepl.slotName: "{slot}"
          snapshotMode: "never"
          logrepl.withAvroSchema: "false"
{tuning.source}\
        processors:
          - id: key
            plugin: field.set
            settings:
              field: ".Key"
              value: "{{{{ .Payload.After.aggregate_id }}}}"
{tuning.processor}\
      - id: kafka
        type: destination
        plugin: builtin:kafka
        settings:
          servers: "{site.bootstrap_servers}"
          topic: "{site.topic}"
          sdk.record.format: "template"
          sdk.record.format.options: "{{{{ toString .Payload.After.payload }}}}"
{tuning.destination}\
"""


class _Tuning(NamedTuple):
    """Lines for the settings of the pipeline's three parts, and options of the command."""

    source: str = ""
    processor: str = ""
    destination: str = ""
    options: tuple[str, ...] = ()


# acks=all and idempotence are defaults; pgoutput's binary values cannot be set. Batches are made before the
# destination only: with sdk.batch.size at the source it was twice as fast, but that connector hands over a batch that
# is not full once a second, whatever sdk.batch.delay says. Its experimental engine (pipeline-arch-v2) was no faster.
_TUNING: dict[Variant, _Tuning] = {
    "documented": _Tuning(),
    "tuned": _Tuning(
        source="""\
          sdk.schema.extract.key.enabled: "false"
          sdk.schema.extract.payload.enabled: "false"
""",
        processor="""\
              sdk.schema.decode.key.enabled: "false"
              sdk.schema.decode.payload.enabled: "false"
              sdk.schema.encode.key.enabled: "false"
              sdk.schema.encode.payload.enabled: "false"
""",
        destination="""\
          compression: "lz4"
          sdk.batch.size: "1000"
          sdk.batch.delay: "5ms"
          sdk.schema.extract.key.enabled: "false"
          sdk.schema.extract.payload.enabled: "false"
""",
        options=("--log.level=warn",),
    ),
}


class Conduit:
    """One process of Go, without its HTTP and gRPC servers, which would listen on two fixed ports."""

    name = "Conduit"

    def __init__(self) -> None:
        self._program = Path()

    def install(self, cache: Path) -> str:
        self._program = on_path("conduit")
        return answer(self._program, "version").split()[0].removeprefix("v")

    def outbox(self, variant: Variant) -> Outbox:
        return OUTBOX

    def prepare(self, site: Site, variant: Variant) -> None:
        publish(site, f"CREATE PUBLICATION {_PUBLICATION} FOR TABLE outbox", _SLOT)
        pipelines = site.directory / "pipelines"
        pipelines.mkdir()
        pipeline = _PIPELINE.format(site=site, slot=_SLOT, publication=_PUBLICATION, tuning=_TUNING[variant])
        (pipelines / "outbox.yaml").write_text(pipeline)

    def command(self, site: Site, variant: Variant) -> Command:
        options = ["--api.enabled=false", *_TUNING[variant].options]
        return Command([self._program, "run", *options], {}, site.directory)
